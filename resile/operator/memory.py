"""What an operator knows of a job beside its status. All of it may be lost at any time: the next
operator finds out again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from dataclasses import dataclass, field

from resile.control.observed import GroupReport
from resile.control.pods import one_line
from resile.job.addresses import Addresses
from resile.job.node import LIVE
from resile.job.status import JobStatus
from resile.job.training import TrainingView
from resile.operator.attendants import Slot
from resile.operator.headway import Headway
from resile.operator.masterline import MasterLine
from resile.platform.kubernetes.observing import Outlook, PodRefusal

__all__ = ["Addressed", "JobMemory"]


Addressed = tuple[Addresses | None, frozenset[Slot], int | None]
"""Addresses of nodes, ranks that have a Service, and the generation of the spec."""


@dataclass
class JobMemory:
    """One job's."""

    uid: str
    line: MasterLine | None = None
    attended: int | None = None
    """The generation of the spec for which services, token and group were last seen to."""

    attended_at: float = float("-inf")
    """When that was, on a clock that only goes forward."""

    unattended: str = ""
    """Why something that the nodes need beside them could not be had."""

    attend_at: float = 0.0
    """When that is tried again, on a clock that only goes forward."""

    addressed: Addressed | None = None
    """For what ConfigMap and Services were last seen to."""

    unaddressed: str = ""
    """Why those could not be had."""

    address_at: float = float("-inf")
    """When they are looked at again, on a clock that only goes forward."""

    refused: dict[int, PodRefusal] = field(default_factory=dict)
    """Nodes whose pods the API server did not take, by id."""

    refused_generation: int | None = None
    """The generation of the spec for which that was last tried."""

    master_refused: str = ""
    """Why the API server will not take the master's pod as the spec is."""

    master_refused_generation: int | None = None

    offer_again_at: float = 0.0
    """When those are tried again, on a clock that only goes forward."""

    reports: dict[str, GroupReport] = field(default_factory=dict)
    """The master's verdicts on groups, kept with the moment at which each was first heard."""

    preempted: dict[str, str] = field(default_factory=dict)
    """What was learnt of pods that others delete, by uid: by whom they were preempted, if so."""

    headway: Headway = field(default_factory=Headway)
    """How far the training was when that was last written into the status."""

    _heard_of: frozenset[int] = frozenset()
    """Ids of nodes that have ended and of which the master was asked."""

    _asked_of: frozenset[int] = frozenset()
    _question: asyncio.Future[None] | None = None
    """Put to the master because of those nodes, and not answered yet."""

    @property
    def trainings(self) -> dict[str, TrainingView] | None:
        """The training of every group as the master saw it last."""
        return None if self.line is None else self.line.latest

    @property
    def in_touch(self) -> frozenset[str]:
        """Names of the nodes whose agents the master hears from."""
        return frozenset(
            node.name
            for training in (self.trainings or {}).values()
            for node in training.nodes.values()
            if not node.away
        )

    def were_made(self, ids: Set[int], status: JobStatus) -> None:
        """Nodes whose pods are there, or were, have been taken after all: the answer got lost, or
        another operator was luckier. They are not offered again."""
        made = ids | {rank.id for rank in status.nodes if rank.seen}
        self.refused = {number: one for number, one in self.refused.items() if number not in made}

    def offers(self, status: JobStatus, now: float) -> set[int]:
        """Ids of nodes that are still wanted and may be tried again; the others are forgotten."""
        wanted = {rank.id for rank in status.nodes if rank.phase in LIVE}
        self.refused = {number: one for number, one in self.refused.items() if number in wanted}
        invalid = {number for number, one in self.refused.items() if one.outlook is Outlook.NEVER}
        again = invalid if self.refused_generation != status.observed_generation else set()
        if now < self.offer_again_at:
            return again
        later = {number for number, one in self.refused.items() if one.outlook is Outlook.LATER}
        return again | later

    def why_invalid(self, generation: int | None) -> str:
        """What the API server has against the pods of this generation of the spec, if anything."""
        if self.refused_generation == generation:
            for one in self.refused.values():
                if one.outlook is Outlook.NEVER:
                    what = f"spec.roles.{one.node.role}: the API server refuses its pods"
                    return f"{what}: {one_line(one.message)}"
        if self.master_refused and self.master_refused_generation == generation:
            return f"spec.master: the API server refuses its pod: {one_line(self.master_refused)}"
        return ""

    def heard_of(self, ended: Set[int], patience: float, again: Callable[[], None]) -> bool:
        """Whether the master was asked since these nodes have ended, and has answered or had
        ``patience`` seconds to. If not it is asked; ``again`` is called when that is over."""
        self._heard_of &= ended
        if self._question is not None and self._question.done():
            self._heard_of |= self._asked_of & ended
            self._question = None
        if self.line is None or ended <= self._heard_of:
            return True
        if self._question is None:
            self._asked_of = frozenset(ended)
            self._question = asyncio.ensure_future(self.line.look(patience))
            self._question.add_done_callback(lambda _: again())
        return False

    async def close(self) -> None:
        """The line is not needed any more."""
        if self._question is not None:
            self._question.cancel()
            self._question = None
        if self.line is not None:
            await self.line.close()
            self.line = None
