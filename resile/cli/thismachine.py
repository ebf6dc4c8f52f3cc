"""A job on this machine as commands see it: asked of its master, or read from what it left.

While its `up` lives a job is asked over HTTP, with patience for a master that is being started
again; afterwards the folder tells the same. A command need not know which.
"""

from __future__ import annotations

import contextlib
import difflib
import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TypeVar

import click

from resile.cli.follower import LogFollower, LogSource
from resile.job.naming import role_in
from resile.job.spec import ElasticJob
from resile.job.status import JobPhase
from resile.job.training import NodeView
from resile.job.view import JobView, ended_view
from resile.platform.local.jobfolder import JobFolder, JobFolderError, JobRunning, all_jobs
from resile.wire.errors import RefusedByPeer, Unreachable
from resile.wire.inquiry import Inquiry
from resile.wire.logfiles import PIECE
from resile.wire.views import EventView, LogFile

__all__ = ["LocalReader", "find_local_job", "not_here"]

PATIENCE = 5.0
"""A killed master is back within a second, on a busy machine within a few."""

RETRY = 0.05
POLL = 0.2
"""How often a followed log is looked at: fast for a person, slow for a machine."""

CRASHED, STARTING, DELETING = "Crashed", "Starting", "Deleting"
OVER = frozenset({JobPhase.SUCCEEDED.value, JobPhase.FAILED.value})

T = TypeVar("T")


class LocalReader:
    """One job, running or not."""

    platform = "local"
    namespace = ""
    unseen = False
    """Its `up` looks after it, or nobody is asked."""

    def __init__(self, folder: JobFolder) -> None:
        self.folder = folder
        self.name = folder.name

    # --- looking ----------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether its `up` lives."""
        return self.folder.running()

    def view(self) -> JobView:
        """Everything there is to see; all but empty before it really began."""
        return self._ask(Inquiry.view, self._last_view)

    def phase(self, view: JobView | None = None) -> str:
        """The job in one word, also when its `up` is gone."""
        seen = view or self.view()
        if seen.phase in OVER:
            return seen.phase
        if self.running:
            return DELETING if seen.deleting else seen.phase or STARTING
        return seen.ended or CRASHED

    def where(self) -> dict[str, str]:
        """What else a person may want to know."""
        return {"Folder": str(self.folder.path)}

    def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        """What happened after event ``since``; a running job may be waited for."""
        return self._ask(
            lambda master: master.events(since=since, wait=wait),
            lambda: self.folder.events(since=since),
        )

    def log_nodes(self) -> list[NodeView]:
        """The nodes whose output there is; the ranks of those that were replaced are forgotten."""
        view = self.view()
        present = {node.name: node for node in view.nodes}
        past = partial(_past_node, view.job)
        return [present.get(file.node) or past(file.node) for file in self.log_files()]

    def lines(
        self,
        wanted: Callable[[NodeView], bool],
        *,
        tail: int | None,
        follow: bool,
        warn: Callable[[str], None],  # noqa: ARG002  files can always be read
    ) -> Generator[tuple[str, str], None, None]:
        """What nodes print: name and line. With ``follow`` until the job is over."""
        return self._lines(_Chosen(self, wanted), tail=tail, follow=follow)

    def master_lines(
        self,
        *,
        tail: int | None,
        follow: bool,
        warn: Callable[[str], None],  # noqa: ARG002  files can always be read
    ) -> Generator[tuple[str, str], None, None]:
        """What its masters print, one after the other into one log."""
        return self._lines(_MasterLog(self.folder), tail=tail, follow=follow)

    def master_trouble(self) -> str:
        """Nothing: it keeps its log."""
        return ""

    def has_nodes(self) -> bool:
        """Whether a node of it runs."""
        status = self.view().status
        return status is not None and any(role.active for role in status.roles.values())

    def _lines(
        self, source: LogSource, *, tail: int | None, follow: bool
    ) -> Generator[tuple[str, str], None, None]:
        follower = LogFollower(source)
        so_far = follower.lines()
        yield from so_far if tail is None else _last(so_far, tail)
        while follow and self.running:
            time.sleep(POLL)
            yield from follower.lines()
        yield from follower.lines()
        yield from follower.rests()

    def log_files(self) -> list[LogFile]:
        """Whose output there is."""
        return self._ask(Inquiry.log_files, self.folder.log_files)

    def log(self, node: str, *, offset: int = 0) -> bytes:
        """A piece of a node's output; empty at its end."""
        return self._ask(
            lambda master: master.log(node, offset=offset),
            lambda: self.folder.log(node, offset=offset),
        )

    def pause(self) -> None:
        """Wait a little before looking again."""
        time.sleep(RETRY)

    # --- steering ---------------------------------------------------------------------------

    def scale(self, sizes: Mapping[str, int]) -> None:
        """Ask for other sizes, by role."""
        self._steer("scaled", lambda master: master.scale(sizes))

    def suspend(self) -> bool:
        """Have all nodes stopped and the job kept; False if it is so already."""
        return self._set_suspend("suspended", True)

    def resume(self) -> bool:
        """Have a suspended job go on; False if it is not suspended."""
        return self._set_suspend("resumed", False)

    def delete(self) -> None:
        """Ask for its end, if it runs."""
        if self.running:
            self._steer("deleted", lambda master: master.delete())

    def gone(
        self,
        *,
        wait: bool,
        warn: Callable[[str], None],  # noqa: ARG002  nodes here end within their grace period
    ) -> bool:
        """After :meth:`delete`: whether nothing of it is left; ``wait`` until it is so."""
        if self.running and not wait:
            return False
        self._forget()
        return True

    def _set_suspend(self, what: str, wish: bool) -> bool:
        self._await_beginning(what)
        if self._is_suspended() is wish:
            return False
        self._steer(what, Inquiry.suspend if wish else Inquiry.resume)
        return True

    def _is_suspended(self) -> bool:
        view = self.view()
        if view.suspend is not None:
            return view.suspend
        return bool((view.manifest or {}).get("spec", {}).get("suspend"))

    def _forget(self) -> None:
        """Remove what is left once its `up` is gone; that removes the folder itself if it can."""
        try:
            while self.folder.exists():
                if self.running:
                    self.pause()
                    continue
                try:
                    with self.folder.hold():
                        self.folder.remove()
                except JobRunning:
                    continue
        except JobFolderError as error:
            raise click.ClickException(str(error)) from None

    def _steer(self, what: str, wish: Callable[[Inquiry], None]) -> None:
        """Ask something of a running job; a refusal is the user's to read."""
        self._await_beginning(what)
        self._ask(wish, self._gone)

    def _await_beginning(self, what: str) -> None:
        """Until there is somebody who can be asked for the job to be ``what``."""
        if not self.running:
            raise click.ClickException(self._refusal(what))
        deadline = time.monotonic() + PATIENCE
        while self.view().manifest is None and time.monotonic() < deadline:
            time.sleep(RETRY)  # its `up` has only just begun

    def _refusal(self, what: str) -> str:
        phase = self.phase()
        if phase in OVER:
            return f"the job is over; it cannot be {what} any more"
        return (
            f"the job '{self.name}' is not running ({phase}); the next 'resile up' trains on from "
            "its last checkpoint"
        )

    # --- asking -----------------------------------------------------------------------------

    def _last_view(self) -> JobView:
        """What was written down last; of a killed `up` that is what ran at the time."""
        view = self.folder.view() or JobView(name=self.name, phase="")
        crashed = not self.running and not view.ended and view.phase not in OVER
        return ended_view(view, CRASHED) if crashed else view

    def _gone(self) -> None:
        raise click.ClickException(f"the job '{self.name}' does not answer; see {self.folder.path}")

    def _ask(self, live: Callable[[Inquiry], T], past: Callable[[], T]) -> T:
        deadline = time.monotonic() + PATIENCE
        while self.running and time.monotonic() < deadline:
            master = self.folder.inquiry()
            if master is not None:
                try:
                    return live(master)
                except Unreachable:
                    pass
                except RefusedByPeer as refusal:
                    raise click.ClickException(refusal.reason) from None
            time.sleep(RETRY)
        return past()


def _past_node(job: ElasticJob | None, name: str) -> NodeView:
    role = "" if job is None else role_in(job, name)
    return NodeView(name=name, role=role, rank=None, phase="")


class _Chosen:
    """The logs of some nodes. Which those are may change: another node takes a rank over."""

    def __init__(self, reader: LocalReader, wanted: Callable[[NodeView], bool]) -> None:
        self._reader = reader
        self._wanted = wanted
        self._chosen: dict[str, bool] = {}

    def log_files(self) -> list[LogFile]:
        files = self._reader.log_files()
        if any(file.node not in self._chosen for file in files):
            for node in self._reader.log_nodes():
                chosen = self._wanted(node)
                if chosen or node.rank is not None:  # else its rank may only not be told yet
                    self._chosen.setdefault(node.name, chosen)
        return [file for file in files if self._chosen.get(file.node)]

    def log(self, node: str, *, offset: int = 0) -> bytes:
        return self._reader.log(node, offset=offset)


class _MasterLog:
    """The log of a job's master: a file beside the nodes' folder."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder

    def log_files(self) -> list[LogFile]:
        with contextlib.suppress(OSError):
            size = self._folder.master_log.stat().st_size
            return [LogFile(node=f"{self._folder.name}-master", size=size)]
        return []

    def log(self, node: str, *, offset: int = 0) -> bytes:  # noqa: ARG002  there is one only
        with contextlib.suppress(OSError), open(self._folder.master_log, "rb") as file:
            file.seek(offset)
            return file.read(PIECE)
        return b""


def _last(lines: Iterator[tuple[str, str]], number: int) -> Iterator[tuple[str, str]]:
    """The last lines of each log."""
    kept: dict[str, deque[tuple[str, str]]] = {}
    for node, line in lines:
        kept.setdefault(node, deque(maxlen=number)).append((node, line))
    return chain.from_iterable(kept.values())


def find_local_job(name: str) -> LocalReader:
    """The job of that name on this machine; a mistake that names the others if there is none."""
    folders = {folder.name: folder for folder in all_jobs()}
    if name not in folders:
        raise click.ClickException(not_here(name, folders))
    return LocalReader(folders[name])


def not_here(name: str, others: Collection[str]) -> str:
    """What to tell who asks for a job that this machine does not have."""
    if not others:
        return (
            f"there is no job '{name}', nor any other on this machine; "
            "start one with 'resile up job.yaml'"
        )
    close = difflib.get_close_matches(name, others, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return f"there is no job '{name}'.{hint} There are: {', '.join(others)}"
