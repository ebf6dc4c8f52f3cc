"""The interface of a job on any platform: view it, read its logs, control it.

:class:`~resile.client.local.LocalJob` asks the `resile up` of a job on this machine, or reads the
folder it left; :class:`~resile.client.cluster.job.ClusterJob` asks the API server. Reads are
retried while the other side is unavailable. Changes are not: they may have been received.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Protocol, TypeAlias

from resile.job.training import NodeView
from resile.job.view import JobView
from resile.wire.auth import Scope
from resile.wire.views import EventView

__all__ = [
    "CRASHED",
    "DELETED",
    "DELETING",
    "INTERRUPTED",
    "STARTING",
    "Batch",
    "Job",
    "NodeFilter",
    "Warn",
    "all_nodes",
    "no_warning",
]

STARTING, DELETING = "Starting", "Deleting"
DELETED, CRASHED, INTERRUPTED = "Deleted", "Crashed", "Interrupted"
"""Results of :meth:`Job.phase` besides the phases of a job's status. Crashed: the job's `resile up`
was killed; Interrupted: it was ended by a signal."""

Batch: TypeAlias = list[tuple[str, str]]
"""Lines of output in order, as pairs of a node's name and a line it printed."""

NodeFilter: TypeAlias = Callable[[NodeView], bool]
Warn: TypeAlias = Callable[[str], None]


def all_nodes(_node: NodeView) -> bool:
    """Select every node."""
    return True


def no_warning(_text: str) -> None:
    """Drop a warning."""


class Job(Protocol):
    """A job, running or not."""

    @property
    def name(self) -> str:
        """The job's name."""

    @property
    def platform(self) -> str:
        """The platform it runs on: local or kubernetes."""

    @property
    def namespace(self) -> str:
        """Its namespace; empty on this machine."""

    @property
    def unseen(self) -> bool:
        """True if the controller had not yet seen the current manifest when last asked."""

    @property
    def poll_interval(self) -> float:
        """Seconds between two polls while waiting."""

    # --- reading ----------------------------------------------------------------------------

    async def running(self) -> bool:
        """Return whether a controller still manages it."""

    async def view(self, *, within: float | None = None) -> JobView:
        """Return the full view of the job; the last one if it is gone.

        ``within``: seconds for which to retry while the other side is unavailable."""

    async def phase(self, view: JobView | None = None) -> str:
        """Return the job's state in one word, also when it is gone."""

    def where(self) -> dict[str, str]:
        """Return where the job is, as named facts for a person."""

    async def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        """Return what happened after event ``since``; wait up to ``wait`` seconds for the first."""

    async def has_nodes(self) -> bool:
        """Return whether it has any node."""

    # --- logs -------------------------------------------------------------------------------

    async def log_nodes(self) -> list[NodeView]:
        """Return the nodes that have output."""

    def lines(
        self, wanted: NodeFilter, *, tail: int | None, follow: bool, warn: Warn
    ) -> AsyncGenerator[Batch, None]:
        """Yield the output of nodes. With ``follow`` until the job is over; ``tail``: only so many
        lines of the output that exists at first."""

    def master_lines(
        self, *, tail: int | None, follow: bool, warn: Warn
    ) -> AsyncGenerator[Batch, None]:
        """Yield the output of its master."""

    async def master_trouble(self) -> str:
        """Return why its master prints nothing, in a sentence; empty if nothing is wrong."""

    # --- changing ---------------------------------------------------------------------------

    async def scale(self, sizes: Mapping[str, int]) -> None:
        """Ask for other sizes, by role; raises InvalidState for one that the job cannot have."""

    async def suspend(self) -> bool:
        """Stop all nodes and keep the job; False if it is suspended already."""

    async def resume(self) -> bool:
        """Continue a suspended job; False if it is not suspended."""

    async def delete(self) -> None:
        """Request its deletion."""

    async def gone(self, *, wait: bool, warn: Warn) -> bool:
        """After :meth:`delete`: return whether nothing of it is left; ``wait``: wait for that.

        ``warn`` is called once with what delays it, if it takes long."""

    async def token(self, scope: Scope) -> str:
        """Return the job's token of that scope, for its HTTP API."""

    async def aclose(self) -> None:
        """Close connections."""
