"""The current state of a group, and the methods that change it.

The rules are in ``membership`` and ``resile.master.rounds``; this is what they work on: the
group's record, its nodes and its latest round. Every change and message is collected as an effect.
"""

from __future__ import annotations

from typing import Any

import msgspec

from resile.job.elasticity import Elasticity
from resile.job.events import EventKind
from resile.master.effects import Address, Effects
from resile.master.nodes import RECONNECT_WINDOW, NodeEntry, NodeTable
from resile.master.records import (
    ENDINGS,
    GROUP_ENDINGS,
    JOB_KEY,
    MAIN,
    ROUND_KEY,
    JobRecord,
    RoundPhase,
    RoundRecord,
    StoredGroup,
    group_key,
    node_key,
)
from resile.master.round import Round
from resile.wire.messages import Fence, FromMaster, JobDone, Outcome, Wait, Welcome


class GroupState:
    """The state of one group. Attributes are read directly and changed by methods only."""

    def __init__(
        self, job: JobRecord, *, group: str = MAIN, effects: Effects | None = None
    ) -> None:
        """``effects``: shared by all groups of the job."""
        self.job = job
        self.group = group
        self.nodes = NodeTable()
        self.round = Round(RoundRecord(), {})
        self.effects = effects or Effects()
        self.master_pid = 0
        """The process id of this master, for people."""
        self.handover = 0
        """The number of the handover in progress; 0 for none. Not stored: see ``handover``."""

    @classmethod
    def restore(cls, memory: StoredGroup, *, effects: Effects, now: float) -> GroupState:
        """Load from a store: every node is disconnected and has a lease's time to come back."""
        restored = cls(memory.job, group=memory.group, effects=effects)
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
        if fence.node not in self.nodes:
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

    def _put(self, key: str, record: msgspec.Struct) -> None:
        self.effects.put(group_key(self.group, key), record)

    def adopt(self, memory: StoredGroup, *, now: float) -> None:
        """As :meth:`restore`, for records that are not in the store yet; writes them."""
        self._take_over(memory, now)
        self._put(JOB_KEY, memory.job)
        self._put(ROUND_KEY, memory.round)
        for record in memory.nodes:
            self._put(node_key(record.id), record)

    def _take_over(self, memory: StoredGroup, now: float) -> None:
        self.job = memory.job
        self.round = Round(memory.round, {n.id: n.info for n in memory.nodes})
        proof_at = now + memory.job.elasticity.lease
        for record in memory.nodes:
            self.nodes.add(
                NodeEntry(
                    record=record,
                    lease_until=proof_at,
                    proof_at=proof_at,
                    not_before=now + RECONNECT_WINDOW,
                )
            )

    def set_job(self, **changes: Any) -> None:
        """Change fields of the job's record."""
        self.job = msgspec.structs.replace(self.job, **changes)
        self._put(JOB_KEY, self.job)

    def set_phase(self, phase: RoundPhase, *, reason: str) -> None:
        """Move the latest round to another phase."""
        self.round.change(phase=phase, store=self.round.record.store, reason=reason)
        self._put(ROUND_KEY, self.round.record)

    def open_round(self, record: RoundRecord) -> None:
        """Open a new round."""
        self.round = Round(record, {node.id: node.record.info for node in self.nodes})
        self._put(ROUND_KEY, record)

    def add(self, node: NodeEntry) -> None:
        """Add a node to the group."""
        self.nodes.add(node)
        self._put(node_key(node.id), node.record)

    def set_slot(self, node: NodeEntry, slot: int) -> None:
        """Give a node its rank."""
        if node.record.slot != slot:
            self.nodes.release_claim(node, node.record.slot)
            node.record = msgspec.structs.replace(node.record, slot=slot)
            self.nodes.claim(node, slot)
            self._put(node_key(node.id), node.record)

    def reached_group(self, node: NodeEntry) -> None:
        """Note that a node's workers have reached the process group, if that is new."""
        if not node.record.reached_in:
            node.record = msgspec.structs.replace(node.record, reached_in=self.round.number)
            self._put(node_key(node.id), node.record)

    def went(self, *, on_purpose: bool) -> None:
        """Note how the latest node went."""
        if self.job.left_on_purpose is not on_purpose:
            self.set_job(left_on_purpose=on_purpose)

    def remove(self, node: NodeEntry) -> None:
        """Remove a node; if its workers had succeeded, the round keeps that."""
        self.nodes.remove(node)
        self.effects.delete(group_key(self.group, node_key(node.id)))
        if node.id in self.round.succeeded:
            self.round.finish(node.id)
            self._put(ROUND_KEY, self.round.record)

    # --- messages and events ----------------------------------------------------------------

    def send(self, node: int, body: FromMaster) -> None:
        """Send a message to a node."""
        self.effects.send(Address(self.group, node), body)

    def welcome(self, node: NodeEntry, held: int, *, note: str = "") -> None:
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
        follower = self.nodes.get(self.round.follower_of(node))
        start = self.round.start_for(
            node,
            run=self.job.run,
            restarts=self.job.restarts,
            max_restarts=self.elasticity.max_restarts,
            neighbour=follower.record.info.peer_address if follower and follower.id != node else "",
        )
        self.send(node, start)

    def send_wait(self, node: NodeEntry, reason: str) -> None:
        """Tell a node to wait, once for each reason; workers of a broken round have to stop."""
        if node.wait_reason != reason:
            node.wait_reason = reason
            self.send(node.id, Wait(reason=reason, stop_workers=True))

    def record_event(
        self, kind: EventKind, text: str, now: float, *, node: int | None = None
    ) -> None:
        """Publish an event of this group."""
        number = self.round.number
        self.effects.record_event(kind, text, now, round=number, node=node, group=self.group)

    def record_end(self, outcome: Outcome, reason: str, now: float) -> None:
        """Publish the end of the job, or of this group of it."""
        kind = (ENDINGS if self.group == MAIN else GROUP_ENDINGS)[outcome]
        self.record_event(kind, f"{self.noun} {outcome.value}: {reason}", now)
