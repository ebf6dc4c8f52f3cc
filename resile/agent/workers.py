"""The workers of one round on one node: started together, watched, and stopped together.

How long a worker gets between a signal and SIGKILL depends on the signal's disposition, which is
read from /proc and needs no support by the script; without /proc it counts as default.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from resile.agent.config import AgentConfig
from resile.agent.daemon_thread import run_in_daemon_thread
from resile.agent.logs import WorkerLog, attempt_folder
from resile.agent.nursery import Nursery, Worker, WorkerSpec
from resile.agent.worker_env import with_local_rank, worker_environment
from resile.agent.worker_errors import message_end, read_error_file, startup_error
from resile.wire.messages import Start, WorkerFailure


class Disposition(Enum):
    """How a process reacts to a signal."""

    DEFAULT = auto()
    """The kernel's default action, or unknown."""

    CAUGHT = auto()
    """The program has a handler."""

    IGNORED = auto()


def disposition(pid: int, number: signal.Signals) -> Disposition:
    """The present disposition of a signal in a process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return Disposition.DEFAULT
    return disposition_in_status(status, number)


def disposition_in_status(status: str, number: signal.Signals) -> Disposition:
    """Read the disposition from /proc/PID/status. Masks have bit n - 1 set for signal n."""
    masks = dict(line.split(":", 1) for line in status.splitlines() if line.startswith("Sig"))
    for field, found in (("SigCgt", Disposition.CAUGHT), ("SigIgn", Disposition.IGNORED)):
        if int(masks.get(field, "0"), 16) >> (number - 1) & 1:
            return found
    return Disposition.DEFAULT


LONGEST_MESSAGE = 8 * 1024
"""Characters: the end of a traceback."""

ALL_MESSAGES = 32 * 1024
"""Characters of all messages of a node's workers: they must fit into one frame, at up to four bytes
each."""

NO_HANDLER_GRACE = 1.0
"""Seconds from a signal to SIGKILL for a worker without a handler for it: it exits at once, or it
ignores the signal and would use up any grace period."""

OUTPUT_WAIT = 0.05
"""Seconds in which a dead worker's output is read to its end, unless a grandchild holds the
pipe."""

READ_TIMEOUT = 1.0
"""Seconds for which a slow disk may delay the report of a failure."""


@dataclass
class RunningWorker:
    """A worker of the round, running or exited."""

    local_rank: int
    rank: int
    worker: Worker
    log: WorkerLog
    error_file: Path
    exit_code: int | None = None
    ended_at: float = 0.0
    last_output: str = ""
    recorded: str = ""
    """Its error file, if it wrote one."""


@dataclass(frozen=True)
class WorkerFiles:
    """The files of a worker that is about to be started."""

    local_rank: int
    rank: int
    log: WorkerLog
    error_file: Path


class WorkerGroup:
    """All local workers of one round. ``on_exit`` is called when a worker exits."""

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
        self._running: list[RunningWorker] = []
        self._watchers: list[asyncio.Task[None]] = []
        self._stopping: asyncio.Task[None] | None = None
        self.round = 0
        self.first_rank = 0
        self.store_port = 0

    async def start(self, start: Start) -> None:
        """Start every worker of the round."""
        self.round, self.store_port = start.round, start.store.port
        self.first_rank = start.first_rank
        prepared = await run_in_daemon_thread(
            lambda: [self._prepare(start, number) for number in range(self._config.nproc)]
        )
        try:
            workers = await self._nursery.spawn([self._spec(start, each) for each in prepared])
        finally:
            for each in prepared:
                each.log.started()
        for each, worker in zip(prepared, workers, strict=True):
            running = RunningWorker(each.local_rank, each.rank, worker, each.log, each.error_file)
            self._running.append(running)
            self._watchers.append(asyncio.create_task(self._watch(running)))

    def _prepare(self, start: Start, local_rank: int) -> WorkerFiles:
        folder = attempt_folder(self._log_root, start.round, local_rank)
        rank = start.first_rank + local_rank
        log = WorkerLog(
            self._config.logs,
            folder,
            self._config.output,
            role=self._config.role,
            local_rank=local_rank,
            rank=rank,
        )
        return WorkerFiles(local_rank, rank, log, folder / "error.json")

    def _spec(self, start: Start, prepared: WorkerFiles) -> WorkerSpec:
        command = with_local_rank(self._config.command, prepared.local_rank)
        environment = worker_environment(
            self._environment,
            start,
            local_rank=prepared.local_rank,
            nproc=self._config.nproc,
            run_id=self._config.run_id,
            role=self._config.role,
            error_file=prepared.error_file,
            progress_socket=self._progress_socket,
            snapshots_socket=self._snapshots_socket,
            virtual_local_rank=self._config.virtual_local_rank,
        )
        return WorkerSpec(
            command=command,
            env=environment,
            cwd=self._config.working_dir,
            stdin=0,
            stdout=prepared.log.stdout,
            stderr=prepared.log.stderr,
        )

    async def _watch(self, running: RunningWorker) -> None:
        running.exit_code = await running.worker.wait()
        running.ended_at = time.monotonic()
        self._on_exit(self)

    @property
    def alive(self) -> list[RunningWorker]:
        """Workers that have not exited."""
        return [running for running in self._running if running.exit_code is None]

    @property
    def pids(self) -> dict[int, int]:
        """Global rank of each worker by its process id."""
        return {running.worker.pid: running.rank for running in self._running}

    @property
    def succeeded(self) -> bool:
        """Whether all have exited with 0."""
        return all(running.exit_code == 0 for running in self._running)

    @property
    def has_failed(self) -> bool:
        """Whether at least one has failed."""
        return any(running.exit_code not in (None, 0) for running in self._running)

    def failures(self) -> tuple[WorkerFailure, ...]:
        """The failures, in the order of the workers' exits."""
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
                message=message_end(r.last_output, longest),
                log=str(r.log.folder) if self._config.logs.folder else "",
                cannot_start=startup_error(r.exit_code or 0, r.last_output),
                # Only the first failure's file is passed on, and only if it is complete.
                error_file=r.recorded if not n and len(r.recorded) <= LONGEST_MESSAGE else "",
            )
            for n, r in enumerate(sorted(failed, key=lambda r: r.ended_at))
        )

    async def read_failure_messages(self) -> None:
        """Read why workers failed from their output and error files, within a short time limit."""
        await asyncio.wait([asyncio.ensure_future(self._read_all())], timeout=OUTPUT_WAIT)
        failed = [r for r in self._running if r.exit_code not in (None, 0)]

        def read() -> list[tuple[str, str]]:
            files = [(r, read_error_file(r.error_file)) for r in failed]
            return [(file.message or r.log.last_output(), file.content) for r, file in files]

        with contextlib.suppress(asyncio.TimeoutError):
            words = await asyncio.wait_for(run_in_daemon_thread(read), READ_TIMEOUT)
            for running, found in zip(failed, words, strict=True):
                running.last_output, running.recorded = found

    async def _read_all(self) -> None:
        """Wait until the output of exited workers is read: its end goes into the report."""
        await asyncio.gather(*(r.log.finish() for r in self._running if r.exit_code is not None))

    def begin_stop(
        self, *, grace: float | None, number: signal.Signals = signal.SIGTERM
    ) -> asyncio.Task[None]:
        """Start to stop the workers: the signal, then SIGKILL after the grace period. The exit of a
        process with much memory takes time, in which the next round can form.

        Without a ``grace``, workers that have a handler for the signal get time to save something
        and others hardly any: they exit at once, unless they ignore it.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(grace, number))
        return self._stopping

    async def stop(self, *, grace: float | None, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop the workers, or wait for a stop that was started before."""
        stopping = self.begin_stop(grace=grace, number=number)
        if grace is not None and grace <= 0:
            self.kill()
        await asyncio.shield(stopping)

    async def _stop(self, grace: float | None, number: signal.Signals) -> None:
        pairs = zip(self._running, self._watchers, strict=True)
        await asyncio.gather(*(self._end(each, watch, grace, number) for each, watch in pairs))
        await self._read_all()

    async def _end(
        self,
        running: RunningWorker,
        watcher: asyncio.Task[None],
        grace: float | None,
        number: signal.Signals,
    ) -> None:
        """Stop one worker. One that ignores the signal gets SIGTERM instead."""
        found = disposition(running.worker.pid, number)
        if grace is None:
            grace = self._config.save_grace if found is Disposition.CAUGHT else NO_HANDLER_GRACE
        ignored = found is Disposition.IGNORED
        running.worker.signal(signal.SIGTERM if ignored else number)
        if grace > 0:
            await asyncio.wait([watcher], timeout=grace)
        running.worker.signal(signal.SIGKILL)
        await watcher

    def kill(self) -> None:
        """Kill all workers at once, with all that is left in their process groups."""
        for running in self._running:
            running.worker.signal(signal.SIGKILL)
