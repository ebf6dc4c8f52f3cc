"""A job as commands see it, wherever it runs: what can be asked of it, and which one is meant.

On this machine a job is asked of its master, or read from the folder it left; on a cluster it is
read from the API server. The commands are written once, against :class:`JobReader`.

As with kubectl, options choose the cluster; without them a job on this machine comes first.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Generator, Mapping
from typing import Protocol

import click

from resile.cli.mistakes import sentence_for
from resile.cli.places import Where, connect
from resile.cli.thismachine import LocalReader, not_here
from resile.job.training import NodeView
from resile.job.view import JobView
from resile.platform.kubernetes.errors import KubeError
from resile.platform.kubernetes.remote.cluster import is_configured
from resile.platform.kubernetes.remote.errors import NoSuchJob
from resile.platform.local.jobfolder import all_jobs
from resile.wire.views import EventView

__all__ = ["JobReader", "find_job"]


class JobReader(Protocol):
    """One job, running or not."""

    @property
    def name(self) -> str:
        """What the user calls it."""

    @property
    def platform(self) -> str:
        """Where it runs: local or kubernetes."""

    @property
    def namespace(self) -> str:
        """Its namespace; empty on this machine."""

    @property
    def running(self) -> bool:
        """Whether somebody still looks after it."""

    @property
    def unseen(self) -> bool:
        """Whether who looks after it had yet to take the present manifest up, when last asked."""

    def view(self) -> JobView:
        """Everything there is to see."""

    def phase(self, view: JobView | None = None) -> str:
        """The job in one word."""

    def where(self) -> dict[str, str]:
        """What else a person may want to know."""

    def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        """What happened after event ``since``, waiting up to ``wait`` seconds for the first."""

    def log_nodes(self) -> list[NodeView]:
        """The nodes whose output there is."""

    def lines(
        self,
        wanted: Callable[[NodeView], bool],
        *,
        tail: int | None,
        follow: bool,
        warn: Callable[[str], None],
    ) -> Generator[tuple[str, str], None, None]:
        """What nodes print: name and line. With ``follow`` until the job is over; ``tail``: only
        so many lines of what is there at first."""

    def master_lines(
        self, *, tail: int | None, follow: bool, warn: Callable[[str], None]
    ) -> Generator[tuple[str, str], None, None]:
        """The same of what its master prints."""

    def master_trouble(self) -> str:
        """Why its master prints nothing, in a sentence; empty if nothing is wrong with it."""

    def has_nodes(self) -> bool:
        """Whether any node of it is there."""

    def pause(self) -> None:
        """Wait a little before looking again."""

    def scale(self, sizes: Mapping[str, int]) -> None:
        """Ask for other sizes, by role."""

    def suspend(self) -> bool:
        """Have all nodes stopped and the job kept; False if it is so already."""

    def resume(self) -> bool:
        """Have a suspended job go on; False if it is not suspended."""

    def delete(self) -> None:
        """Ask for its end."""

    def gone(self, *, wait: bool, warn: Callable[[str], None]) -> bool:
        """After :meth:`delete`: whether nothing of it is left; ``wait`` until it is so.

        ``warn`` is told once what keeps it, should that take long."""


def find_job(name: str, where: Where) -> JobReader:
    """The job of that name; a mistake that names the others if there is none."""
    if where.given:
        return _on_cluster(name, where)
    folders = {folder.name: folder for folder in all_jobs()}
    if name in folders:
        return LocalReader(folders[name])
    if not is_configured():
        raise click.ClickException(not_here(name, folders))
    try:
        return _on_cluster(name, where)
    except NoSuchJob as error:
        close = difflib.get_close_matches(name, [*folders, *error.others], n=1)
        there = f" There: {', '.join(error.others)}." if error.others else ""
        here = f" Here: {', '.join(folders)}." if folders else ""
        hint = f" Did you mean '{close[0]}'?" if close else ""
        raise click.ClickException(
            f"there is no job '{name}' on this machine, nor {error.place}.{hint}{here}{there} "
            "'resile up job.yaml' starts one here, 'resile submit job.yaml' there"
        ) from None
    except KubeError as error:
        trouble = sentence_for(error)
        raise click.ClickException(f"{trouble}; and {not_here(name, folders)}") from None


def _on_cluster(name: str, where: Where) -> JobReader:
    from resile.platform.kubernetes.remote.job import ClusterJob

    cluster = connect(where)
    return ClusterJob(cluster, cluster.job(name))
