"""A job on this machine: reached through its `resile up`, or read from its folder.

While the job's `up` runs it is asked, with retries while it starts; afterwards its folder has the
same information. A caller need not know which.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from resile.client.errors import InvalidState, JobUnreachable, no_such_local_job
from resile.client.job import (
    CRASHED,
    DELETING,
    STARTING,
    Batch,
    NodeFilter,
    Warn,
    all_nodes,
    no_warning,
)
from resile.client.log_lines import LogLines
from resile.client.up_client import UpClient
from resile.job.errors import ManifestError
from resile.job.manifest.parse import job_from_data
from resile.job.naming import role_in
from resile.job.spec.job import ElasticJob
from resile.job.status import JobPhase
from resile.job.training import NodeView
from resile.job.view import JobView, ended_view
from resile.local.jobdir import JobDir, JobRunning, all_jobs
from resile.local.log_files import PIECE
from resile.wire.auth import AuthError, Scope, Tokens, read_token
from resile.wire.errors import RefusedByPeer, Unreachable
from resile.wire.views import EventView, LogFile

__all__ = ["LocalJob", "find_local_job"]

TIMEOUT = 5.0
"""Seconds. An `up` that was just started answers within one, on a busy machine within a few."""

RETRY = 0.05
POLL = 0.2
"""Seconds between two reads of a followed log: short for a person, long for a machine."""

OVER = frozenset({JobPhase.SUCCEEDED.value, JobPhase.FAILED.value})

T = TypeVar("T")


class LocalJob:
    """A job, running or not."""

    platform = "local"
    namespace = ""
    unseen = False
    """Its `up` manages it, or there is no controller."""
    poll_interval = RETRY

    def __init__(self, folder: JobDir) -> None:
        self.folder = folder
        self.name = folder.name

    # --- reading ----------------------------------------------------------------------------

    async def running(self) -> bool:
        """Return whether its `up` is running."""
        return self.folder.running()

    async def view(self, *, within: float | None = None) -> JobView:
        """Return the full view of the job; almost empty before it has begun."""
        return await self._ask(UpClient.view, self._last_view, within=within)

    async def phase(self, view: JobView | None = None) -> str:
        """Return the job's state in one word, also when its `up` is gone."""
        seen = view or await self.view()
        if seen.phase in OVER:
            return seen.phase
        if self.folder.running():
            return DELETING if seen.deleting else seen.phase or STARTING
        return seen.ended or CRASHED

    def where(self) -> dict[str, str]:
        """Return where the job is, as named facts for a person."""
        return {"Folder": str(self.folder.path)}

    async def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        """Return what happened after event ``since``; wait up to ``wait`` seconds if it runs."""
        return await self._ask(
            lambda up: up.events(since=since, wait=wait),
            lambda: self.folder.events(since=since),
        )

    async def has_nodes(self) -> bool:
        """Return whether any of its nodes runs."""
        status = (await self.view()).status
        return status is not None and any(role.active for role in status.roles.values())

    # --- logs -------------------------------------------------------------------------------

    async def log_nodes(self) -> list[NodeView]:
        """Return the nodes that have output; the ranks of replaced ones are not known."""
        view = await self.view()
        present = {node.name: node for node in view.nodes}
        past = partial(_past_node, _job_of(view))
        return [present.get(file.node) or past(file.node) for file in await self.log_files()]

    def lines(
        self,
        wanted: NodeFilter = all_nodes,
        *,
        tail: int | None = None,
        follow: bool = False,
        warn: Warn = no_warning,  # noqa: ARG002  files can always be read
    ) -> AsyncGenerator[Batch, None]:
        """Yield the output of nodes. With ``follow`` until the job is over."""
        return self._lines(_NodeLogs(self, wanted), tail=tail, follow=follow)

    def master_lines(
        self,
        *,
        tail: int | None = None,
        follow: bool = False,
        warn: Warn = no_warning,  # noqa: ARG002  files can always be read
    ) -> AsyncGenerator[Batch, None]:
        """Yield the output of its masters, which write one after another into one log."""
        return self._lines(_MasterLog(self.folder), tail=tail, follow=follow)

    async def master_trouble(self) -> str:
        """Return an empty text: the master's log is always kept."""
        return ""

    async def _lines(
        self, source: _LogSource, *, tail: int | None, follow: bool
    ) -> AsyncGenerator[Batch, None]:
        lines = LogLines()
        first = _read(source, lines)
        if tail is None:
            async for batch in first:
                yield batch
        else:
            yield await _last(first, tail)
        while follow and self.folder.running():
            await asyncio.sleep(POLL)
            async for batch in _read(source, lines):
                yield batch
        async for batch in _read(source, lines):
            yield batch
        yield lines.rests()

    async def log_files(self) -> list[LogFile]:
        """Return the nodes that have output, with its size."""
        return await self._ask(UpClient.log_files, self.folder.log_files)

    async def log(self, node: str, *, offset: int = 0) -> bytes:
        """Return a piece of a node's output; empty at its end."""
        return await self._ask(
            lambda up: up.log(node, offset=offset),
            lambda: self.folder.log(node, offset=offset),
        )

    # --- changing ---------------------------------------------------------------------------

    async def scale(self, sizes: Mapping[str, int]) -> None:
        """Ask for other sizes, by role."""
        await self._steer("scaled", lambda up: up.scale(sizes))

    async def suspend(self) -> bool:
        """Stop all nodes and keep the job; False if it is suspended already."""
        return await self._set_suspend("suspended", True)

    async def resume(self) -> bool:
        """Continue a suspended job; False if it is not suspended."""
        return await self._set_suspend("resumed", False)

    async def delete(self) -> None:
        """Request its end, if it runs."""
        if self.folder.running():
            await self._steer("deleted", lambda up: up.delete())

    async def gone(
        self,
        *,
        wait: bool,
        warn: Warn = no_warning,  # noqa: ARG002  nodes here end within their grace period
    ) -> bool:
        """After :meth:`delete`: return whether nothing of it is left; ``wait``: wait for that."""
        if self.folder.running() and not wait:
            return False
        await self._forget()
        return True

    async def token(self, scope: Scope) -> str:
        """Return the job's token of that scope."""
        try:
            return Tokens(read_token(self.folder.token_file)).by_scope[scope]
        except AuthError as error:
            raise InvalidState(str(error)) from None

    async def aclose(self) -> None:
        """Do nothing: no connection is kept."""

    async def _set_suspend(self, what: str, suspend: bool) -> bool:
        await self._await_beginning(what)
        if await self._is_suspended() is suspend:
            return False
        await self._steer(what, UpClient.suspend if suspend else UpClient.resume)
        return True

    async def _is_suspended(self) -> bool:
        view = await self.view()
        if view.suspend is not None:
            return view.suspend
        return bool((view.manifest or {}).get("spec", {}).get("suspend"))

    async def _forget(self) -> None:
        """Remove what is left once its `up` has ended, which removes the folder if it can."""
        while self.folder.exists():
            if self.folder.running():
                await asyncio.sleep(RETRY)
                continue
            try:
                with self.folder.hold():
                    self.folder.remove()
            except JobRunning:
                continue

    async def _steer(self, what: str, request: Callable[[UpClient], Awaitable[None]]) -> None:
        """Send a request to a running job."""
        await self._await_beginning(what)
        await self._ask(request, self._unreachable)

    async def _await_beginning(self, what: str) -> None:
        """Wait until there is a controller; raises InvalidState if the job cannot be ``what``."""
        if not self.folder.running():
            raise InvalidState(await self._refusal(what))
        deadline = time.monotonic() + TIMEOUT
        while (await self.view()).manifest is None and time.monotonic() < deadline:
            await asyncio.sleep(RETRY)  # its `up` has only just started

    async def _refusal(self, what: str) -> str:
        phase = await self.phase()
        if phase in OVER:
            return f"the job is over; it cannot be {what} any more"
        return (
            f"the job '{self.name}' is not running ({phase}); the next 'resile up' trains on from "
            "its last checkpoint"
        )

    # --- requests ---------------------------------------------------------------------------

    def _last_view(self) -> JobView:
        """Return the last written view; after a killed `up` it has what ran at the time."""
        view = self.folder.view() or JobView(name=self.name, phase="")
        crashed = not self.folder.running() and not view.ended and view.phase not in OVER
        return ended_view(view, CRASHED) if crashed else view

    def _unreachable(self) -> None:
        raise JobUnreachable(f"the job '{self.name}' does not answer; see {self.folder.path}")

    async def _ask(
        self,
        live: Callable[[UpClient], Awaitable[T]],
        past: Callable[[], T],
        *,
        within: float | None = None,
    ) -> T:
        """Return the answer of the job's `up`, retried while it starts; else that of its folder."""
        deadline = time.monotonic() + (TIMEOUT if within is None else within)
        while self.folder.running() and time.monotonic() < deadline:
            try:
                return await live(UpClient(self.folder))
            except Unreachable:
                await asyncio.sleep(RETRY)
            except RefusedByPeer as refusal:
                raise InvalidState(refusal.reason) from None
        return past()


def find_local_job(name: str) -> LocalJob:
    """Return the job of that name on this machine; raises NoSuchJob, which names the others."""
    folders = {folder.name: folder for folder in all_jobs()}
    if name not in folders:
        raise no_such_local_job(name, folders)
    return LocalJob(folders[name])


def _job_of(view: JobView) -> ElasticJob | None:
    try:
        return job_from_data(view.manifest)
    except ManifestError:
        return None  # no manifest yet, or written by another version of Resile


def _past_node(job: ElasticJob | None, name: str) -> NodeView:
    role = "" if job is None else role_in(job, name)
    return NodeView(name=name, role=role, rank=None, phase="")


class _LogSource(Protocol):
    """A source of output."""

    def log_files(self) -> Awaitable[list[LogFile]]: ...

    def log(self, node: str, *, offset: int) -> Awaitable[bytes]: ...


class _NodeLogs:
    """The logs of the selected nodes. The selection may change: another node takes a rank over."""

    def __init__(self, job: LocalJob, wanted: NodeFilter) -> None:
        self._job = job
        self._wanted = wanted
        self._chosen: dict[str, bool] = {}

    async def log_files(self) -> list[LogFile]:
        files = await self._job.log_files()
        if any(file.node not in self._chosen for file in files):
            for node in await self._job.log_nodes():
                chosen = self._wanted(node)
                if chosen or node.rank is not None:  # else its rank may not be known yet
                    self._chosen.setdefault(node.name, chosen)
        return [file for file in files if self._chosen.get(file.node)]

    async def log(self, node: str, *, offset: int) -> bytes:
        return await self._job.log(node, offset=offset)


class _MasterLog:
    """The log of a job's master: a file beside the nodes' folder."""

    def __init__(self, folder: JobDir) -> None:
        self._folder = folder

    async def log_files(self) -> list[LogFile]:
        with contextlib.suppress(OSError):
            size = self._folder.master_log.stat().st_size
            return [LogFile(node=f"{self._folder.name}-master", size=size)]
        return []

    async def log(self, node: str, *, offset: int) -> bytes:  # noqa: ARG002  there is only one
        return await asyncio.to_thread(_read_at, self._folder.master_log, offset)


def _read_at(path: Path, offset: int) -> bytes:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(offset)
        return file.read(PIECE)
    return b""


async def _read(source: _LogSource, lines: LogLines) -> AsyncGenerator[Batch, None]:
    """Yield what was written since the last call, one log after another."""
    for file in await source.log_files():
        while (offset := lines.offset(file)) is not None:
            try:
                piece = await source.log(file.node, offset=offset)
            except FileNotFoundError:
                break  # the job has been deleted
            if not piece:
                break
            yield lines.take(file.node, piece)


async def _last(batches: AsyncGenerator[Batch, None], number: int) -> Batch:
    """Return the last lines of each log."""
    kept: dict[str, deque[tuple[str, str]]] = {}
    async for batch in batches:
        for node, line in batch:
            kept.setdefault(node, deque(maxlen=number)).append((node, line))
    return [line for last in kept.values() for line in last]
