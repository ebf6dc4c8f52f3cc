"""A job on this machine as commands see it: asked of its master, or read from what it left.

While its `up` lives a job is asked over HTTP, with patience for a master that is being started
again; afterwards the folder tells the same. A command need not know which.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Callable
from typing import TypeVar

import click

from resile.job.status import JobPhase
from resile.platform.local.jobfolder import JobFolder, all_jobs
from resile.wire.errors import RefusedByPeer, Unreachable
from resile.wire.inquiry import Inquiry
from resile.wire.picture import ended_picture
from resile.wire.views import EventView, JobPicture, LogFile

__all__ = ["JobReader", "find_job"]

PATIENCE = 5.0
"""A killed master is back within a second, on a busy machine within a few."""

RETRY = 0.05
CRASHED, STARTING, DELETING = "Crashed", "Starting", "Deleting"
OVER = frozenset({JobPhase.SUCCEEDED.value, JobPhase.FAILED.value})

T = TypeVar("T")


class JobReader:
    """One job, running or not."""

    def __init__(self, folder: JobFolder) -> None:
        self.folder = folder
        self.name = folder.name

    @property
    def running(self) -> bool:
        """Whether its `up` lives."""
        return self.folder.running()

    def picture(self) -> JobPicture:
        """Everything there is to see; all but empty before it really began."""
        return self._ask(Inquiry.picture, self._last_picture)

    def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        """What happened after event ``since``; a running job may be waited for."""
        return self._ask(
            lambda master: master.events(since=since, wait=wait),
            lambda: self.folder.events(since=since),
        )

    def log_files(self) -> list[LogFile]:
        """Whose output there is."""
        return self._ask(Inquiry.log_files, self.folder.log_files)

    def log(self, node: str, *, offset: int = 0) -> bytes:
        """A piece of a node's output; empty at its end."""
        return self._ask(
            lambda master: master.log(node, offset=offset),
            lambda: self.folder.log(node, offset=offset),
        )

    def steer(self, wish: Callable[[Inquiry], None]) -> None:
        """Ask something of a running job; a refusal is the user's to read."""
        if not self.running:
            raise click.ClickException(f"the job '{self.name}' is not running ({self.phase()})")
        deadline = time.monotonic() + PATIENCE
        while self.picture().manifest is None and time.monotonic() < deadline:
            time.sleep(RETRY)  # its `up` has only just begun
        self._ask(wish, self._gone)

    def phase(self, picture: JobPicture | None = None) -> str:
        """The job in one word, also when its `up` is gone."""
        seen = picture or self.picture()
        if seen.phase in OVER:
            return seen.phase
        if self.running:
            return DELETING if seen.deleting else seen.phase or STARTING
        return seen.ended or CRASHED

    def _last_picture(self) -> JobPicture:
        """What was written down last; of a killed `up` that is what ran at the time."""
        picture = self.folder.picture() or JobPicture(name=self.name, phase="")
        crashed = not self.running and not picture.ended and picture.phase not in OVER
        return ended_picture(picture, CRASHED) if crashed else picture

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


def find_job(name: str) -> JobReader:
    """The job of that name; a usage error that names the others if there is none."""
    jobs = {folder.name: folder for folder in all_jobs()}
    if name in jobs:
        return JobReader(jobs[name])
    if not jobs:
        raise click.ClickException(
            f"there is no job '{name}', nor any other on this machine; "
            "start one with 'resile up job.yaml'"
        )
    close = difflib.get_close_matches(name, jobs, n=1)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    raise click.ClickException(f"there is no job '{name}'.{hint} There are: {', '.join(jobs)}")
