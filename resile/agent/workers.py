"""The workers of one round on one node: started together, watched, and stopped together."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from resile.agent.config import AgentConfig
from resile.agent.environment import worker_environment
from resile.agent.logs import WorkerLog, attempt_folder
from resile.agent.nursery import Nursery, Worker, WorkerSpec
from resile.decoding import decode_python_json
from resile.wire.messages import Start, WorkerFailure

LONGEST_MESSAGE = 8 * 1024
"""A traceback's end, in characters."""

ALL_MESSAGES = 32 * 1024
"""What a node's workers may say together: a frame has to hold it, at up to four bytes each."""


@dataclass
class Running:
    """One worker of the round."""

    local_rank: int
    rank: int
    worker: Worker
    log: WorkerLog
    error_file: Path
    exit_code: int | None = None
    ended_at: float = 0.0


class WorkerGroup:
    """All local workers of one round. ``on_exit`` is called at each worker's end."""

    def __init__(
        self,
        config: AgentConfig,
        nursery: Nursery,
        *,
        environment: Mapping[str, str],
        log_root: Path,
        progress_socket: str,
        snapshots_socket: str,
        on_exit: Callable[[WorkerGroup], None],
    ) -> None:
        self._config = config
        self._nursery = nursery
        self._environment = environment
        self._log_root = log_root
        self._progress_socket = progress_socket
        self._snapshots_socket = snapshots_socket
        self._on_exit = on_exit
        self._running: list[Running] = []
        self._watchers: list[asyncio.Task[None]] = []
        self._stopping: asyncio.Task[None] | None = None
        self.round = 0
        self.first_rank = 0
        self.store_port = 0

    async def start(self, start: Start) -> None:
        """Start every worker of the round."""
        self.round, self.store_port = start.round, start.store.port
        self.first_rank = start.first_rank
        specs, prepared = [], []
        for local_rank in range(self._config.nproc):
            folder = attempt_folder(self._log_root, start.round, local_rank)
            rank = start.first_rank + local_rank
            log = WorkerLog(self._config.logs, folder, local_rank=local_rank, rank=rank)
            prepared.append((local_rank, rank, log, folder / "error.json"))
            specs.append(self._spec(start, local_rank, log, folder / "error.json"))
        try:
            workers = await self._nursery.spawn(specs)
        finally:
            for _, _, log, _ in prepared:
                log.started()
        for (local_rank, rank, log, error_file), worker in zip(prepared, workers, strict=True):
            running = Running(local_rank, rank, worker, log, error_file)
            self._running.append(running)
            self._watchers.append(asyncio.create_task(self._watch(running)))

    def _spec(self, start: Start, local_rank: int, log: WorkerLog, error_file: Path) -> WorkerSpec:
        environment = worker_environment(
            self._environment,
            start,
            local_rank=local_rank,
            nproc=self._config.nproc,
            run_id=self._config.run_id,
            role=self._config.role,
            error_file=error_file,
            progress_socket=self._progress_socket,
            snapshots_socket=self._snapshots_socket,
            virtual_local_rank=self._config.virtual_local_rank,
        )
        return WorkerSpec(
            command=self._config.command,
            env=environment,
            cwd=str(Path.cwd()),
            stdin=0,
            stdout=log.stdout,
            stderr=log.stderr,
        )

    async def _watch(self, running: Running) -> None:
        running.exit_code = await running.worker.wait()
        running.ended_at = time.monotonic()
        self._on_exit(self)

    @property
    def alive(self) -> list[Running]:
        """Workers that have not ended."""
        return [running for running in self._running if running.exit_code is None]

    @property
    def pids(self) -> dict[int, int]:
        """Global rank of each worker by its process id."""
        return {running.worker.pid: running.rank for running in self._running}

    @property
    def succeeded(self) -> bool:
        """All have ended, and well."""
        return all(running.exit_code == 0 for running in self._running)

    @property
    def has_failed(self) -> bool:
        """At least one ended that should not have."""
        return any(running.exit_code not in (None, 0) for running in self._running)

    def failures(self) -> tuple[WorkerFailure, ...]:
        """How those ended that failed, in the order of their ends."""
        failed = [r for r in self._running if r.exit_code not in (None, 0)]
        now = time.monotonic()
        longest = min(LONGEST_MESSAGE, ALL_MESSAGES // max(1, len(failed)))
        return tuple(
            WorkerFailure(
                local_rank=r.local_rank,
                rank=r.rank,
                pid=r.worker.pid,
                exit_code=r.exit_code or 0,
                age=now - r.ended_at,
                message=sendable(_last_words(r), longest),
                log=str(r.log.folder) if self._config.logs.folder else "",
            )
            for r in sorted(failed, key=lambda r: r.ended_at)
        )

    async def read_all(self) -> None:
        """Wait until the output of ended workers is read, for the sake of their last words."""
        await asyncio.gather(*(r.log.finish() for r in self._running if r.exit_code is not None))

    def begin_stop(self, *, grace: float) -> asyncio.Task[None]:
        """Begin to end them: SIGTERM, and SIGKILL to the whole process group when the grace is
        over. To end a process with much memory takes its time, in which a round can form."""
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(grace))
        return self._stopping

    async def stop(self, *, grace: float) -> None:
        """End them, or wait for the end that was begun."""
        stopping = self.begin_stop(grace=grace)
        if grace <= 0:
            self.kill()
        await asyncio.shield(stopping)

    async def _stop(self, grace: float) -> None:
        for running in self.alive:
            running.worker.signal(signal.SIGTERM)
        if self.alive and grace > 0:
            await asyncio.wait(self._watchers, timeout=grace)
        self.kill()
        await asyncio.gather(*self._watchers)
        await self.read_all()

    def kill(self) -> None:
        """End all at once, and whatever their process groups still hold."""
        for running in self._running:
            running.worker.signal(signal.SIGKILL)


def sendable(text: str, longest: int) -> str:
    """The end of ``text``. JSON may hold halves of characters, which no message can carry."""
    return text[len(text) - min(len(text), longest) :].encode(errors="replace").decode()


def _last_words(running: Running) -> str:
    """The worker's error file, if it wrote one, else the end of its stderr."""
    try:
        message = decode_python_json(running.error_file.read_bytes())["message"]
        if isinstance(message, str):
            return message
        return str(message.get("extraInfo", {}).get("py_callstack") or message.get("message"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return running.log.last_words()
