"""The nursery as the agent uses it: starts workers, warm where possible, and hosts stores."""

import asyncio
import importlib.util
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from .environment import differences, shared_variables
from .errors import NurseryDied, StoreUnavailable
from .generations import ActiveServer, ForkServers
from .inside.protocol import Spawn
from .options import NurseryPolicy, Preload
from .worker import StoreHost, Worker, WorkerCommand, WorkerSpec

_log = logging.getLogger(__name__)

Answer = TypeVar("Answer")


class Nursery:
    """Starts all workers of a node, and the stores of the rounds it hosts.

    Args:
        command: the workers' command. A worker with another command, folder or environment starts
            cold.
        env: the environment that workers have in common. Variables that tell a worker its place
            in the job are removed from it.
        address: the address on which stores listen.
    """

    def __init__(
        self,
        *,
        command: WorkerCommand,
        env: Mapping[str, str],
        cwd: str,
        preload: Preload | None = None,
        address: str = "127.0.0.1",
        policy: NurseryPolicy | None = None,
    ) -> None:
        self._command = command
        self._env = shared_variables(env)
        self._cwd = cwd
        self._address = address
        self._servers = ForkServers(
            command=command,
            env=self._env,
            cwd=cwd,
            preload=preload or Preload(),
            policy=policy or NurseryPolicy(),
        )
        self._said: set[str] = set()

    async def start(self) -> None:
        """Start a nursery process; it imports in the background."""
        self._servers.start()

    async def ready(self) -> None:
        """Wait until workers can be started without a delay by imports."""
        await self._servers.active()

    async def spawn(self, specs: Sequence[WorkerSpec]) -> list[Worker]:
        """Start all of these workers or none, as soon as the nursery is ready.

        Raises `SpawnFailed` if the machine cannot start a process.
        """
        return await self._with_active(lambda active: self._spawn(active, specs))

    async def wants_torch(self) -> bool:
        """Whether workers are expected to use torch, and so a store.

        Warm: whether torch was preloaded or the script's text mentions it. Cold: whether torch is
        installed at all, since nothing more is known.
        """
        active = await self._servers.active()
        if active.why_cold:
            return _torch_is_installed()
        return active.has_torch or self._servers.preload_list.mentions_torch

    async def open_store(self, host: str | None = None, port: int = 0) -> StoreHost:
        """Start a fresh store for one round, at the node's address and on a free port by default.

        Raises `StoreUnavailable` if torch is not installed, the address is not this machine's or
        the port is in use.
        """
        where = host or self._address
        return await self._with_active(lambda active: self._open_store(active, where, port))

    async def learn(self) -> None:
        """Preload what workers have imported so far for the next ones, and wait for that."""
        await self._servers.learn_now()

    async def close(self) -> None:
        """Stop the nursery and kill everything that it started."""
        await self._servers.close()

    async def _with_active(self, request: Callable[[ActiveServer], Awaitable[Answer]]) -> Answer:
        """Send a request to the active process, and retry once if the process dies."""
        try:
            return await request(await self._servers.active())
        except NurseryDied:
            # All that it had started died with it, so nothing is started twice.
            return await request(await self._servers.active())

    async def _open_store(self, active: ActiveServer, host: str, port: int) -> StoreHost:
        if not active.has_torch and not _torch_is_installed():
            raise StoreUnavailable(
                "a store needs torch, which is not installed here: pip install 'resile[torch]'"
            )
        return await active.process.open_store(host, port)

    async def _spawn(self, active: ActiveServer, specs: Sequence[WorkerSpec]) -> list[Worker]:
        starting = [asyncio.ensure_future(self._spawn_one(active, spec)) for spec in specs]
        outcomes = await asyncio.gather(*starting, return_exceptions=True)
        workers = [outcome for outcome in outcomes if isinstance(outcome, Worker)]
        failures = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if failures:
            for worker in workers:
                worker.signal(signal.SIGKILL)
            raise failures[0]
        for worker in workers:
            self._say_why_cold(active, worker)
        return workers

    async def _spawn_one(self, active: ActiveServer, spec: WorkerSpec) -> Worker:
        why_cold = active.why_cold or self._why_cold(spec)
        spawn = Spawn(
            request=0,
            warm=not why_cold,
            argv=spec.command.argv(),
            environ=dict(spec.env),
            cwd=spec.cwd,
            hooked=not spec.command.why_cold(),
        )
        worker = await active.process.spawn(spawn, (spec.stdin, spec.stdout, spec.stderr))
        worker.reason = why_cold or worker.reason
        return worker

    def _why_cold(self, spec: WorkerSpec) -> str:
        """Return why this worker cannot be forked from a warm nursery; empty if it can."""
        if spec.command != self._command:
            return "it runs another command than the nursery was started for"
        if spec.cwd != self._cwd:
            return f"it runs in {spec.cwd}, the nursery in {self._cwd}"
        changed = differences(self._env, spec.env)
        if changed:
            return f"its environment differs in {', '.join(changed)}"
        return ""

    def _say_why_cold(self, active: ActiveServer, worker: Worker) -> None:
        """Log each reason for a cold worker once; that of the process was logged at its start."""
        if worker.reason and not active.why_cold and worker.reason not in self._said:
            self._said.add(worker.reason)
            _log.info("a worker starts cold: %s", worker.reason)


def _torch_is_installed() -> bool:
    return importlib.util.find_spec("torch") is not None
