"""The current state of a group, and the methods that change it.

The rules are in ``membership`` and ``resile.master.formation``; this is what they work on: the
group's record, its nodes and its latest round. Every change and message is collected as an effect.
"""

from __future__ import annotations

from typing import Any

import msgspec

from resile.job.elasticity import Elasticity
from resile.job.events import EventKind
from resile.master.journal import Address, Journal
from resile.master.records import (
    ENDINGS,
    GROUP_ENDINGS,
    JOB_KEY,
    MAIN,
    ROUND_KEY,
    GroupMemory,
    JobRecord,
    RoundPhase,
    RoundRecord,
    group_key,
    node_key,
)
from resile.master.roster import RECONNECT_WINDOW, Node, Roster
from resile.master.rounds import Round
from resile.wire.messages import Fence, FromMaster, JobDone, Outcome, Wait, Welcome


class Register:
    """The state of one group. Attributes are read directly and changed by methods only."""

    def __init__(
        self, job: JobRecord, *, group: str = MAIN, journal: Journal | None = None
    ) -> None:
        """``journal``: shared by all groups of the job."""
        self.job = job
        self.group = group
        self.roster = Roster()
        self.round = Round(RoundRecord(), {})
        self.journal = journal or Journal()
        self.master_pid = 0
        """The process id of this master, for people."""
        self.handover = 0
        """The number of the handover in progress; 0 for none. Not stored: see ``handover``."""

    @classmethod
    def restore(cls, memory: GroupMemory, *, journal: Journal, now: float) -> Register:
        """Load from a store: every node is disconnected and has a lease's time to come back."""
        restored = cls(memory.job, group=memory.group, journal=journal)
        restored._take_over(memory, now)
        return restored

    @property
    def elasticity(self) -> Elasticity:
        """The group's sizes and timeouts."""
        return self.job.elasticity

    @property
    def noun(self) -> str:
        """The group in a sentence: the main group is called the job."""
        return "the job" if self.group == MAIN else "the group"

    # --- reading ----------------------------------------------------------------------------

    def why_stale(self, fence: Fence, phase: RoundPhase) -> str | None:
        """Return why a message is late; None if it is not."""
        if self.job.outcome:
            return "the job has ended"
        if fence.node not in self.roster:
            return f"node {fence.node} is not in the job"
        if fence.round != self.round.number or fence.node not in self.round:
            return f"round {fence.round} is over; the job is at round {self.round.number}"
        if self.round.phase is not phase:
            return f"round {fence.round} is {self.round.phase.value}, not {phase.value}"
        return None

    def done(self) -> JobDone | None:
        """Return the message for agents once the job has ended; None before."""
        if self.job.outcome is None:
            return None
        return JobDone(outcome=self.job.outcome, reason=self.job.reason, report=self.job.report)

    # --- writing ----------------------------------------------------------------------------

    def _keep(self, key: str, record: msgspec.Struct) -> None:
        self.journal.keep(group_key(self.group, key), record)

    def adopt(self, memory: GroupMemory, *, now: float) -> None:
        """As :meth:`restore`, for records that are not in the store yet; writes them."""
        self._take_over(memory, now)
        self._keep(JOB_KEY, memory.job)
        self._keep(ROUND_KEY, memory.round)
        for record in memory.nodes:
            self._keep(node_key(record.id), record)

    def _take_over(self, memory: GroupMemory, now: float) -> None:
        self.job = memory.job
        self.round = Round(memory.round, {n.id: n.info for n in memory.nodes})
        proof_at = now + memory.job.elasticity.lease
        for record in memory.nodes:
            self.roster.add(
                Node(
                    record=record,
                    lease_until=proof_at,
                    proof_at=proof_at,
                    not_before=now + RECONNECT_WINDOW,
                )
            )

    def set_job(self, **changes: Any) -> None:
        """Change fields of the job's record."""
        self.job = msgspec.structs.replace(self.job, **changes)
        self._keep(JOB_KEY, self.job)

    def set_phase(self, phase: RoundPhase, *, reason: str) -> None:
        """Move the latest round to another phase."""
        self.round.change(phase=phase, store=self.round.record.store, reason=reason)
        self._keep(ROUND_KEY, self.round.record)

    def open_round(self, record: RoundRecord) -> None:
        """Open a new round."""
        self.round = Round(record, {node.id: node.record.info for node in self.roster})
        self._keep(ROUND_KEY, record)

    def add(self, node: Node) -> None:
        """Add a node to the group."""
        self.roster.add(node)
        self._keep(node_key(node.id), node.record)

    def set_slot(self, node: Node, slot: int) -> None:
        """Give a node its rank."""
        if node.record.slot != slot:
            self.roster.renounce(node, node.record.slot)
            node.record = msgspec.structs.replace(node.record, slot=slot)
            self.roster.claim(node, slot)
            self._keep(node_key(node.id), node.record)

    def reached_group(self, node: Node) -> None:
        """Note that a node's workers have reached the process group, if that is new."""
        if not node.record.reached_in:
            node.record = msgspec.structs.replace(node.record, reached_in=self.round.number)
            self._keep(node_key(node.id), node.record)

    def went(self, *, on_purpose: bool) -> None:
        """Note how the latest node went."""
        if self.job.left_on_purpose is not on_purpose:
            self.set_job(left_on_purpose=on_purpose)

    def remove(self, node: Node) -> None:
        """Remove a node; if its workers had succeeded, the round keeps that."""
        self.roster.remove(node)
        self.journal.forget(group_key(self.group, node_key(node.id)))
        if node.id in self.round.succeeded:
            self.round.finish(node.id)
            self._keep(ROUND_KEY, self.round.record)

    # --- messages and events ----------------------------------------------------------------

    def send(self, node: int, body: FromMaster) -> None:
        """Send a message to a node."""
        self.journal.send(Address(self.group, node), body)

    def welcome(self, node: Node, held: int, *, note: str = "") -> None:
        """Send a node its id, what it holds, and the group's settings."""
        welcome = Welcome(
            node=node.id,
            round=held,
            lease=self.elasticity.lease,
            elasticity=self.elasticity,
            note=note,
            handover=self.handover,
            master_pid=self.master_pid,
        )
        self.send(node.id, welcome)

    def send_start(self, node: int) -> None:
        """Tell a member to start its workers."""
        follower = self.roster.get(self.round.follower_of(node))
        start = self.round.start_for(
            node,
            run=self.job.run,
            restarts=self.job.restarts,
            max_restarts=self.elasticity.max_restarts,
            neighbour=follower.record.info.door if follower and follower.id != node else "",
        )
        self.send(node, start)

    def tell_wait(self, node: Node, reason: str) -> None:
        """Tell a node to wait, once for each reason; workers of a broken round have to stop."""
        if node.wait_reason != reason:
            node.wait_reason = reason
            self.send(node.id, Wait(reason=reason, stop_workers=True))

    def tell(self, kind: EventKind, text: str, now: float, *, node: int | None = None) -> None:
        """Publish an event of this group."""
        number = self.round.number
        self.journal.tell(kind, text, now, round=number, node=node, group=self.group)

    def tell_end(self, outcome: Outcome, reason: str, now: float) -> None:
        """Publish the end of the job, or of this group of it."""
        kind = (ENDINGS if self.group == MAIN else GROUP_ENDINGS)[outcome]
        self.tell(kind, f"{self.noun} {outcome.value}: {reason}", now)
