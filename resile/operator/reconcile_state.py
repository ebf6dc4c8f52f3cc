"""The in-process state that an operator keeps for a job besides its status. All of it may be lost
at any time: the next operator rebuilds it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from dataclasses import dataclass, field

from resile.control.observed import GroupReport
from resile.control.pod_outcome import one_line
from resile.job.addresses import Addresses
from resile.job.node import LIVE
from resile.job.status import JobStatus
from resile.job.training import TrainingView
from resile.operator.child_objects import Slot
from resile.operator.master_client import MasterClient
from resile.operator.observe.nodes import RejectedPod, Retryability
from resile.operator.training_status import WrittenProgress

__all__ = ["EnsuredAddresses", "ReconcileState"]


EnsuredAddresses = tuple[Addresses | None, frozenset[Slot], int | None]
"""The addresses of nodes, the ranks that have a Service, and the generation of the spec."""


@dataclass
class ReconcileState:
    """The in-process state of one job. Times are on the monotonic clock."""

    uid: str
    line: MasterClient | None = None
    ensured_generation: int | None = None
    """The generation of the spec for which services, token and group were last ensured."""

    ensured_at: float = float("-inf")
    """When that was."""

    master_problem: str = ""
    """Why something that the nodes need besides themselves is unavailable."""

    master_retry_at: float = 0.0
    """When that is retried."""

    ensured_addresses: EnsuredAddresses | None = None
    """The state for which ConfigMap and Services were last ensured."""

    addresses_problem: str = ""
    """Why those are unavailable."""

    addresses_retry_at: float = float("-inf")
    """When they are checked again."""

    refused: dict[int, RejectedPod] = field(default_factory=dict)
    """Nodes whose pods the API server rejected, by id."""

    refused_generation: int | None = None
    """The generation of the spec for which that was last tried."""

    master_refused: str = ""
    """Why the API server rejects the master's pod for this spec."""

    master_refused_generation: int | None = None

    offer_again_at: float = 0.0
    """When rejected pods are retried."""

    reports: dict[str, GroupReport] = field(default_factory=dict)
    """The outcomes of groups that the master reported, with the time of the first report."""

    preempted: dict[str, str] = field(default_factory=dict)
    """For pods that somebody else deletes, by uid: the scheduler's message if it preempted them."""

    headway: WrittenProgress = field(default_factory=WrittenProgress)
    """The training progress that was last written into the status."""

    _heard_of: frozenset[int] = frozenset()
    """Ids of ended nodes about which the master was asked."""

    _asked_of: frozenset[int] = frozenset()
    _question: asyncio.Future[None] | None = None
    """The pending request to the master about those nodes."""

    @property
    def trainings(self) -> dict[str, TrainingView] | None:
        """The training of every group as the master saw it last."""
        return None if self.line is None else self.line.latest

    @property
    def reachable(self) -> frozenset[str]:
        """Names of the nodes whose agents the master hears from."""
        return frozenset(
            node.name
            for training in (self.trainings or {}).values()
            for node in training.nodes.values()
            if not node.away
        )

    def drop_created(self, ids: Set[int], status: JobStatus) -> None:
        """Drop rejections of nodes whose pods exist, or existed: the response was lost, or another
        operator succeeded. They are not created again."""
        made = ids | {rank.id for rank in status.nodes if rank.seen}
        self.refused = {number: one for number, one in self.refused.items() if number not in made}

    def offers(self, status: JobStatus, now: float) -> set[int]:
        """Return the ids of rejected nodes that may be retried now, and drop those that are no
        longer wanted."""
        wanted = {rank.id for rank in status.nodes if rank.phase in LIVE}
        self.refused = {number: one for number, one in self.refused.items() if number in wanted}
        invalid = {
            number for number, one in self.refused.items() if one.outlook is Retryability.NEVER
        }
        again = invalid if self.refused_generation != status.observed_generation else set()
        if now < self.offer_again_at:
            return again
        later = {
            number for number, one in self.refused.items() if one.outlook is Retryability.LATER
        }
        return again | later

    def why_invalid(self, generation: int | None) -> str:
        """Return why the API server rejects the pods of this generation of the spec, if it does."""
        if self.refused_generation == generation:
            for one in self.refused.values():
                if one.outlook is Retryability.NEVER:
                    what = f"spec.roles.{one.node.role}: the API server rejects its pods"
                    return f"{what}: {one_line(one.message)}"
        if self.master_refused and self.master_refused_generation == generation:
            return f"spec.master: the API server rejects its pod: {one_line(self.master_refused)}"
        return ""

    def has_asked_about(self, ended: Set[int], timeout: float, again: Callable[[], None]) -> bool:
        """Return whether the master was asked since these nodes have ended, and has answered or
        timed out after ``timeout`` seconds. If not, ask it; ``again`` is called when done."""
        self._heard_of &= ended
        if self._question is not None and self._question.done():
            self._heard_of |= self._asked_of & ended
            self._question = None
        if self.line is None or ended <= self._heard_of:
            return True
        if self._question is None:
            self._asked_of = frozenset(ended)
            self._question = asyncio.ensure_future(self.line.look(timeout))
            self._question.add_done_callback(lambda _: again())
        return False

    async def close(self) -> None:
        """Close the connection to the master."""
        if self._question is not None:
            self._question.cancel()
            self._question = None
        if self.line is not None:
            await self.line.close()
            self.line = None
