"""The rounds of a group: how they form, break and end.

``membership`` says which nodes joined and left; this module decides what follows for the round. Its
membership is closed as soon as possible, it breaks when a member is lost or a worker fails, and the
next one forms from the nodes that are there. Whether a failure costs a restart, or ends the job, is
decided in ``resile.master.failures``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from resile.job.elasticity import ANY_ROLE, Elasticity, GroupSuccess
from resile.job.events import EventKind
from resile.master.failures import (
    Consequence,
    FailureJudge,
    JobFails,
    NodeDismissed,
    RoundChanged,
)
from resile.master.handover import HandoverManager
from resile.master.nodes import NodeEntry
from resile.master.records import JobRecord, RoundPhase, RoundRecord
from resile.master.round import (
    Deadlines,
    Round,
    choose_members,
    deciding_members,
    in_rank_order,
    is_over,
)
from resile.master.state import GroupState
from resile.wire import messages
from resile.wire.messages import FailureReport, JobDone, LocalState, Outcome, WorkerFailure

SPARE = "waiting as a spare: the job has its maximum number of nodes"
WARMING = "warming up: training continues without this node until it can start workers at once"


class RoundManager:
    """The rounds of one group, from the first node that joins to the end of the last worker."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._nodes = state.nodes
        self._until = Deadlines()
        self._judge = FailureJudge(state)
        self._handovers = HandoverManager(state)

    @property
    def _job(self) -> JobRecord:
        return self._state.job

    @property
    def _round(self) -> Round:
        return self._state.round

    @property
    def _elasticity(self) -> Elasticity:
        return self._state.elasticity

    def deadlines(self) -> list[float]:
        """When :meth:`check_deadlines` has something to do."""
        handover = self._handovers.until
        pending = [*self._until.pending(), *self._judge.deadlines()]
        return pending if handover is None else [*pending, handover]

    def resume(self, now: float) -> None:
        """Continue after a restart of the master: a forming round gets its whole timeout again."""
        self._forget_deadlines()
        if self._round.phase is RoundPhase.FORMING:
            self._until.forming = now + self._elasticity.forming_timeout
        elif self._round.phase is RoundPhase.GATHERING:
            self._judge.broken = self._round.record.reason

    def _forget_deadlines(self) -> None:
        self._until = Deadlines()
        self._judge.forget_deadlines()

    # --- what breaks a round ----------------------------------------------------------------

    def lost(self, node: NodeEntry, reason: str, now: float) -> None:
        """A node is out of the job: the round continues only if the node had finished."""
        self._judge.lost(node, reason, now)

    def evicted(self, node: NodeEntry, why: str, now: float) -> None:
        """A node is being evicted (before :meth:`lost`): settle which failure was the cause."""
        self._carry_out(self._judge.evicted(node, why, now), now)

    def progressed(self, node: NodeEntry, step: int) -> None:
        """A node's workers report steps: they have reached the process group."""
        self._judge.progressed(node, step)

    def suspect(self, node: NodeEntry, now: float) -> None:
        """A member's connection is gone: failures seen elsewhere point at it."""
        self._judge.suspect(node, now)

    def failed(self, node: NodeEntry, failures: tuple[WorkerFailure, ...], now: float) -> None:
        """Workers of a member failed."""
        needed = self.depends_on([node])
        self._carry_out(self._judge.failed(node, failures, now, needed=needed), now)

    def break_round(self, reason: str, now: float) -> None:
        """The round cannot continue, and no worker is the cause: it costs no restart."""
        self._carry_out(self._judge.break_round(reason), now)

    def not_ready(self, now: float) -> list[NodeEntry]:
        """Return the members that were not ready before the timeout."""
        if not is_over(self._until.forming, now):
            return []
        self._until.forming = None
        late = set(self._round.members) - self._round.ready
        return [self._nodes[node] for node in sorted(late) if node in self._nodes]

    def check_for_late_workers(self, now: float) -> None:
        """The set of workers in the process group changed: check for some that are late."""
        self._judge.check_for_late_workers(now)

    def _carry_out(self, consequence: Consequence | None, now: float) -> None:
        """Act on the consequence of a failure, if there is one."""
        match consequence:
            case JobFails(reason):
                self._fail(reason, now)
            case NodeDismissed(node, why):
                self._dismiss(node, why, now)
            case RoundChanged():
                self.consider(now)

    def _dismiss(self, node: NodeEntry, why: str, now: float) -> None:
        """Continue without a newcomer that cannot run the script: no restart would help."""
        self._state.record_event(
            EventKind.NODE_DISMISSED, f"{node.label} was dismissed: {why}", now, node=node.id
        )
        done = JobDone(
            outcome=Outcome.FAILED,
            reason=why,
            report=self._judge.first_failure(),
            others_go_on=True,
        )
        self._state.send(node.id, done)
        self._state.remove(node)
        self._judge.broken = f"{node.label} failed before it could train"
        self.consider(now)

    def _fail(self, reason: str, now: float) -> None:
        self.finish(Outcome.FAILED, reason, now, report=self._judge.first_failure())

    # --- planned changes --------------------------------------------------------------------

    def leaving(self, node: NodeEntry, reason: str, now: float) -> None:
        """A node is about to leave: let all members save first, if they can."""
        self._nodes.leaving.add(node.id)
        running = self._round.phase is RoundPhase.RUNNING and node.id in self._round
        breaking = self._judge.broken or self._judge.undecided
        if not running or breaking or self._round.succeeded:
            self._state.send(node.id, messages.HandoverOver(round=self._round.number))
            return
        self._handovers.begin(f"{node.label} is leaving: {reason}", now, leaving=node.id)

    def may_save(self, node: NodeEntry, now: float) -> bool:
        """Whether a node's workers in the round may hold steps that are not saved elsewhere."""
        running = self._round.phase is RoundPhase.RUNNING and node.state is LocalState.RUNNING
        answers = node.connected and node.lease_until > now
        return running and answers and node.id in self._round

    def depends_on(self, nodes: Collection[NodeEntry]) -> bool:
        """Whether the current round could not be formed again if these nodes were evicted."""
        if self._round.phase is RoundPhase.GATHERING:
            return False
        out = {node.id for node in nodes}
        others = [n for n in self._nodes.staying() if n.connected and n.id not in out]
        return not self._world_of(others)

    @property
    def handing_over(self) -> bool:
        """Whether a planned change is being prepared."""
        return self._handovers.current is not None

    def is_leaving(self, node: NodeEntry) -> bool:
        """Whether a node has announced that it leaves and waits for all members to save."""
        handover = self._handovers.current
        return handover is not None and node.id in handover.leaving

    def remind(self, node: NodeEntry) -> None:
        """A member reconnected, and may have missed that a change is planned."""
        self._handovers.remind(node.id)

    def handover_prepared(self, node: NodeEntry, handover: int, now: float, *, able: bool) -> None:
        """A member's workers know of the planned change, or cannot save."""
        if self._handovers.prepared(node.id, handover, able=able):
            self._end_handover(now)

    def handed_over(
        self, node: NodeEntry, handover: int, step: int, now: float, *, copied: int | None
    ) -> None:
        """A member's workers saved a step and hold."""
        if self._handovers.saved(node.id, handover, step, now, copied=copied):
            self._end_handover(now)

    def published(self, node: NodeEntry, handover: int, stored: int | None, now: float) -> None:
        """A member's saved state is in storage, or cannot be stored."""
        if self._handovers.published(node.id, handover, stored, now):
            self._end_handover(now)

    def leaves_early(self, node: NodeEntry, now: float) -> None:
        """A node leaves: if a planned change is unfinished, report what is lost with the node."""
        self._handovers.leaves_early(node.id, now)

    def _end_handover(self, now: float) -> None:
        """All members saved, or cannot, or took too long: apply the change."""
        handover = self._handovers.current
        self._handovers.finish(now)
        if handover is not None and not handover.leaving:
            self._judge.broken = handover.reason
        self.consider(now)

    def _handover_is_moot(self) -> str:
        """Return why the planned change is no longer needed, or nothing."""
        handover = self._handovers.current
        if handover is None:
            return ""
        if self._round.succeeded:
            return "training is about to end"
        if handover.leaving:
            here = any(node in self._nodes for node in handover.leaving)
            return "" if here else "the node that wanted to leave is gone"
        return "" if self._has_grown() else "the new nodes are gone"

    # --- forming a round --------------------------------------------------------------------

    def check_deadlines(self, now: float) -> None:
        """Act on every deadline that is over."""
        self._carry_out(self._judge.check_late_start(now), now)
        self._carry_out(self._judge.check_verdict(now), now)
        if is_over(self._handovers.until, now):
            if self._handovers.current is not None and self._handovers.current.over:
                self._handovers.cancel("the node that wanted to leave has not left")
            else:
                self._end_handover(now)
        if is_over(self._until.join, now):
            self._until.join = None
            timeout = f"{self._elasticity.join_timeout:g} s"
            self._fail(f"timed out after {timeout}: {self._shortage()}", now)

    def consider(self, now: float) -> None:
        """Take the next step of the current round, if there is one."""
        if self._job.outcome:
            return
        if self._round.complete():
            reason = _why_complete(self._round.record)
            self.finish(Outcome.SUCCEEDED, reason, now)
            return
        if self._round.phase is RoundPhase.RUNNING and not self._judge.broken:
            self._consider_newcomers(now)
        if self._judge.broken and self._round.phase is not RoundPhase.GATHERING:
            self._state.set_phase(RoundPhase.GATHERING, reason=self._judge.broken)
            self._handovers.drop()
            self._forget_deadlines()
            self._judge.acquit()
        if self._round.phase is RoundPhase.GATHERING:
            self._close_if_possible(now)

    def _consider_newcomers(self, now: float) -> None:
        if moot := self._handover_is_moot():
            self._handovers.cancel(moot)
        if self.handing_over:
            self._until.settle = None
            return
        grown, ending = self._has_grown(), self._round.succeeded
        if not grown or ending or self._nodes.disconnected or self._judge.undecided:
            self._until.settle = None
            self._tell_spares()
        elif self._until.settle is None:
            self._until.settle = now + self._elasticity.join_settle
        elif self._until.settle <= now:
            self._handovers.begin("new nodes joined", now)

    def _has_grown(self) -> bool:
        """Whether the job could train with more nodes than it does."""
        return sum(self._world_of(self._candidates()).values()) > len(self._round.members)

    def _world_of(self, nodes: Collection[NodeEntry]) -> dict[str, int]:
        """Return how many of these nodes may train, by role; empty when they are too few."""
        return self._elasticity.world(self._count(nodes))

    def _count(self, nodes: Collection[NodeEntry]) -> Mapping[str, int]:
        if not self._elasticity.roles:
            return {ANY_ROLE: len(nodes)}
        return Counter(node.record.info.role for node in nodes)

    def _tell_spares(self) -> None:
        if len(self._nodes) <= len(self._round.members):
            return
        for node in self._nodes:
            if node.id not in self._round:
                self._state.send_wait(node, SPARE if node.warm else WARMING)

    def _close_if_possible(self, now: float) -> None:
        """Close the round's membership: no node disconnected, enough nodes, no last call open."""
        if self._nodes.disconnected:
            return
        world = self._world_of(self._candidates())
        if not world:
            self._wait_for_count_nodes(now)
            return
        self._until.join = None
        if self._round.number > 0 or self._last_call_over(sum(world.values()), now):
            self._close(world, now)

    def _last_call_over(self, size: int, now: float) -> bool:
        """Whether the first round is complete, or the time to wait for more nodes is over."""
        known = self._job.wanted if self._job.wanted is not None else self._elasticity.max_nodes
        if size >= self._elasticity.largest_world(known):
            return True
        if self._until.last_call is None:
            self._until.last_call = now + self._elasticity.last_call
        return self._until.last_call <= now

    def _wait_for_count_nodes(self, now: float) -> None:
        self._until.last_call = None
        nobody_yet = self._job.next_node == 0
        # An independent group whose node was removed, and that is to have none.
        unwanted = self._elasticity.independent and self._job.wanted == 0
        if self._job.resting or nobody_yet or unwanted:
            self._until.join = None
        elif self._until.join is None:
            self._until.join = now + self._elasticity.join_timeout
            for node in self._nodes:
                self._tell_shortage(node)

    def greet(self, node: NodeEntry) -> None:
        """Tell a newcomer what the group waits for, if it does.

        Sent once to each node: telling all of every newcomer would cost O(n²) messages.
        """
        if self._until.join is not None:
            self._tell_shortage(node)

    def _tell_shortage(self, node: NodeEntry) -> None:
        self._state.send_wait(node, f"waiting for nodes: {self._shortage()}")

    def _candidates(self) -> Collection[NodeEntry]:
        """Return the nodes that may be in the next round: none that is about to leave; once a job
        has trained, only warm ones if they suffice."""
        staying = self._nodes.staying()
        if self._round.number == 0 or not self._nodes.cold:
            return staying
        warm = [node for node in staying if node.warm]
        return warm if self._world_of(warm) else staying

    def _shortage(self) -> str:
        return self._elasticity.shortage(self._count(self._nodes))

    def _close(self, world: Mapping[str, int], now: float) -> None:
        """Choose the members of a new round and send them Prepare."""
        candidates = [node.record for node in self._candidates()]
        chosen = choose_members(candidates, self._round.members, self._elasticity, sizes=world)
        members = in_rank_order(chosen, self._elasticity)
        for node_id, slot in members.items():
            self._state.set_slot(self._nodes[node_id], slot)
        infos = {node.id: node.record.info for node in self._nodes}
        record = RoundRecord(
            number=max(self._round.number, self._job.floor) + 1,
            phase=RoundPhase.FORMING,
            members=tuple(members),
            reason=self._judge.broken or "first round",
            success=self._elasticity.success,
            deciding=deciding_members(tuple(members), infos, self._elasticity),
        )
        self._state.open_round(record)
        self._judge.round_forms()
        self._until = Deadlines(forming=now + self._elasticity.forming_timeout)
        text = f"round {record.number}: forming with {_count_nodes(len(members))}: {record.reason}"
        self._state.record_event(EventKind.ROUND_FORMING, text, now)
        for node in self._nodes:
            node.state, node.wait_reason, node.missing = LocalState.IDLE, "", ()
        for member in record.members:
            self._state.send(member, self._round.prepare_for(member))
        self._tell_spares()

    def start(self, now: float) -> None:
        """Every member is ready: start the workers."""
        self._until.forming = None
        self._judge.round_starts(now)
        self._state.set_phase(RoundPhase.RUNNING, reason=self._round.record.reason)
        nodes, world = _count_nodes(len(self._round.members)), self._round.world_size
        workers = f"{world} worker{'' if world == 1 else 's'}"
        text = f"round {self._round.number}: running with {nodes}, {workers}"
        self._state.record_event(EventKind.ROUND_RUNNING, text, now)
        for member in self._round.members:
            self._nodes[member].state = LocalState.RUNNING
            self._state.send_start(member)
        self.consider(now)

    def finish(
        self, outcome: Outcome, reason: str, now: float, *, report: FailureReport | None = None
    ) -> None:
        """End the job, or this group of it."""
        self._state.set_job(outcome=outcome, reason=reason, report=report)
        self._forget_deadlines()
        self._state.record_end(outcome, reason, now)
        if done := self._state.done():
            for node in self._nodes:
                self._state.send(node.id, done)


def _why_complete(record: RoundRecord) -> str:
    """Describe why a round counts as a success, for people."""
    if record.success is GroupSuccess.ANY:
        return "the workers of one node succeeded"
    if len(record.deciding) not in (0, len(record.members)):
        return "all workers of the first role succeeded"
    return "all workers succeeded"


def _count_nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"
