"""The generations of nursery processes: the active one, and its successors.

The first process imports the modules that the script is known to import and becomes active when
that is done. If workers then import more, or a module made the process unfit to fork, a successor
is started beside the running job with a small share of the CPU and takes over; the former process
stays as the parent of its workers and exits with the last of them. Where nothing can be preloaded
the active process imports nothing and starts cold workers, so there is only one way to start, reap
and kill workers.

A process that dies is replaced at once, but only if it has been used: a machine that kills
nurseries for their memory must not be kept busy with new ones.
"""

import asyncio
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from .errors import NurseryClosed, SpawnFailed
from .inside.import_recorder import Changed, UnfitPackage
from .inside.protocol import PreloadRequest, PreloadResult
from .learned_imports import ImportReports
from .options import NurseryPolicy, Preload, PreloadMode
from .preload_list import PreloadList
from .process import COLD_ARGV, NurseryProcess, hook_is_found, launch
from .worker import WorkerCommand

_log = logging.getLogger(__name__)

_OURS = str(Path(__file__).parents[2])
"""Our own package: it does not change while its agent runs, wherever it is installed."""


@dataclass(frozen=True)
class ActiveServer:
    """The active process.

    Attributes:
        why_cold: why its workers start cold; empty if they are warm.
    """

    process: NurseryProcess
    why_cold: str
    has_torch: bool


class ForkServers:
    """Starts nursery processes, one generation after the other."""

    def __init__(
        self,
        *,
        command: WorkerCommand,
        env: Mapping[str, str],
        cwd: str,
        preload: Preload,
        policy: NurseryPolicy,
    ) -> None:
        self._command = command
        self._env = env
        self._cwd = cwd
        self._preload = preload
        self._policy = policy
        self.preload_list = PreloadList(modules=())
        self._reports: ImportReports | None = None
        self._processes: set[NurseryProcess] = set()
        self._active: asyncio.Task[ActiveServer] | None = None
        self._successor: asyncio.Task[None] | None = None
        self._why_never_warm = command.why_cold()
        if sys.platform != "linux":
            self._why_never_warm = "only Linux tells whether a library has started threads"
        self._gained = 0
        self._preloaded: set[str] = set()
        self._judging: set[asyncio.Task[None]] = set()
        self._judgement = asyncio.Lock()
        self._was_of_use = False
        self._closed = False

    def start(self) -> None:
        """Start the first process."""
        self._active = asyncio.create_task(self._begin())

    async def active(self) -> ActiveServer:
        """Return the active process, once it is ready."""
        if self._closed or self._active is None:
            raise NurseryClosed("the nursery is not running")
        if self._is_vacant():
            self._active = asyncio.create_task(self._start_active())
        self._was_of_use = True
        return await asyncio.shield(self._active)

    async def learn_now(self) -> None:
        """Start a successor with everything that was reported, and wait until it is active."""
        if self._reports is None:
            return
        self.preload_list.learn(self._reports.take())
        await asyncio.gather(*self._judging)
        if self._successor is not None:
            await asyncio.wait([self._successor])
        if set(self.preload_list.wanted) - set(self.preload_list.certain):
            self._request_successor()
            assert self._successor is not None
            await asyncio.wait([self._successor])

    async def close(self) -> None:
        """Stop all processes and everything that they started."""
        self._closed = True
        under_way = (self._active, self._successor, *self._judging)
        tasks = [task for task in under_way if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        limit = self._policy.group_grace + self._policy.close_limit
        await asyncio.gather(*(process.close(limit) for process in self._processes))
        if self._reports is not None:
            self.preload_list.learn(self._reports.close())

    async def _begin(self) -> ActiveServer:
        """Find out what can be preloaded, if anything, and start the first process."""
        if self._preload.mode is PreloadMode.NONE:
            self._why_never_warm = "--preload none"
        if not self._why_never_warm:
            found, self.preload_list = await asyncio.gather(
                asyncio.to_thread(hook_is_found, self._command, env=self._env, cwd=self._cwd),
                asyncio.to_thread(
                    PreloadList.gather, self._command, self._preload, cwd=self._cwd, env=self._env
                ),
            )
            if not found:
                self._why_never_warm = f"{self._command.python} does not run sitecustomize"
        if not self._why_never_warm and self._preload.mode is PreloadMode.AUTO:
            self._reports = ImportReports(
                quiet=self._policy.quiet, on_quiet=self._on_learnt, on_remark=self._on_remark
            )
        return await self._start_active()

    async def _start_active(self) -> ActiveServer:
        """Start a process and make it active, warm if possible, cold otherwise."""
        why_cold = self._why_never_warm
        for attempts_left in (1, 0) if not why_cold else ():
            process, ready = await self._warm(self.preload_list.certain, share=1.0)
            if not ready.unfit:
                return ActiveServer(process, "", ready.has_torch)
            why_cold = _blame(ready)
            if attempts_left and (ready.culprits or ready.awaiting):
                # A retry without it takes no longer than the start of a cold worker.
                _log.info("%s; workers import it themselves", why_cold)
                continue
            if ready.culprits or ready.awaiting:
                self._successor = asyncio.create_task(self._start_successor())
            break
        _log.info("workers start cold: %s", why_cold)
        process = self._launch(COLD_ARGV, preload=None, share=1.0)
        await process.ready(self._policy.warm_up_limit)
        return ActiveServer(process, why_cold, False)

    async def _warm(
        self, modules: list[str], *, share: float
    ) -> tuple[NurseryProcess, PreloadResult]:
        """Start a process that preloads these modules, and wait until it is ready."""
        process = self._launch(self._command.argv(), preload=modules, share=share)
        ready = await process.ready(self._policy.warm_up_limit / share)
        if ready.unfit:
            for culprit, reason in ready.culprits.items():
                self.preload_list.blame(culprit, reason)
            self.preload_list.hold_back(ready.awaiting)
            await process.close(0.0)
        else:
            self.preload_list.confirm(ready)
            self._preloaded = {name.partition(".")[0] for name in ready.loaded}
            if self._reports is not None:
                self._reports.know((*ready.loaded, *ready.passed_over))
        return process, ready

    async def _start_successor(self) -> None:
        """Start a successor beside the active process, and let it take over."""
        for _ in range(self._policy.successor_attempts):
            try:
                process, ready = await self._warm(
                    self.preload_list.wanted, share=self._policy.successor_share
                )
            except SpawnFailed as error:
                _log.info("cannot start a second nursery: %s", error)
                return
            if not ready.unfit:
                await self._take_over(ActiveServer(process, "", ready.has_torch))
                return
            _log.debug("a nursery cannot be used: %s", _blame(ready))
            if not (ready.culprits or ready.awaiting):
                return

    async def _take_over(self, active: ActiveServer) -> None:
        former = self._active
        self._active = asyncio.create_task(_already(active))
        if former is not None:
            (await former).process.retire()
        _log.info("a new nursery took over: workers start warm from now on")

    def _on_learnt(self, names: list[str]) -> None:
        self._gained += self.preload_list.learn(names)
        if self._gained >= self._policy.worthwhile:
            self._request_successor()

    def _on_remark(self, remark: Changed | UnfitPackage) -> None:
        if isinstance(remark, UnfitPackage):
            self.preload_list.blame(remark.package, f"it {remark.reason}")
            self._give_up(remark.package, remark.reason)
            return
        self.preload_list.note_changed(remark.package, remark.variables)
        if remark.package not in sys.stdlib_module_names:
            task = asyncio.create_task(self._judge(remark.package))
            self._judging.add(task)
            task.add_done_callback(self._judging.discard)

    async def _judge(self, package: str) -> None:
        async with self._judgement:
            guilty = await asyncio.to_thread(self.preload_list.judge, package)
        if guilty:
            self._give_up(package, f"may depend on ${guilty[0]}, which the script sets before")

    def _give_up(self, package: str, reason: str) -> None:
        """Log that a package should not have been preloaded, and start a successor without it."""
        if package not in self._preloaded:
            return
        self._preloaded.discard(package)
        _log.warning(
            "%s was imported ahead of the script, but it %s; "
            "workers started from now on import it themselves",
            package,
            reason,
        )
        self._request_successor()

    def _request_successor(self) -> None:
        if self._successor is None or self._successor.done():
            self._gained = 0
            self._successor = asyncio.create_task(self._start_successor())

    def _is_vacant(self) -> bool:
        active = self._active
        if active is None or not active.done():
            return False
        return (
            active.cancelled()
            or active.exception() is not None
            or active.result().process.has_ended
        )

    def _launch(
        self, argv: list[str], *, preload: list[str] | None, share: float
    ) -> NurseryProcess:
        report_fd = -1 if self._reports is None else self._reports.write_end
        prepare = PreloadRequest(
            environ=dict(self._env),
            preload=preload,
            libraries_only=self._preload.mode is PreloadMode.AUTO,
            trusted=[_OURS],
            awaited=sorted(self.preload_list.awaited),
            first_path=self._command.first_path(cwd=self._cwd, env=self._env),
            report_fd=report_fd,
            share=share,
            grace=self._policy.group_grace,
        )
        keep = [report_fd] if report_fd >= 0 else []
        try:
            child, line = launch(argv, env=self._env, cwd=self._cwd, keep=keep)
        except OSError as error:
            raise SpawnFailed(f"cannot start a nursery: {error}") from error
        process = NurseryProcess(child, line, prepare)
        self._processes.add(process)
        process.on_end(self._on_end)
        return process

    def _on_end(self, process: NurseryProcess) -> None:
        self._processes.discard(process)
        if self._is_vacant() and self._was_of_use and not self._closed:
            _log.warning("the nursery (process %d) died; starting a new one", process.pid)
            self._was_of_use = False
            self._active = asyncio.create_task(self._start_active())


async def _already(active: ActiveServer) -> ActiveServer:
    return active


def _blame(ready: PreloadResult) -> str:
    for culprit, reason in ready.culprits.items():
        return f"importing {culprit} in the nursery: {reason}"
    return f"the nursery cannot be forked: {ready.unfit}"
