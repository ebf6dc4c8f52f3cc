"""The membership of a group as a state machine: events in, effects out, no I/O.

It decides which nodes are in the group, which round the group is in, and what each node does next.
A job has one main group and may have others (``groups``); without others, the group is the job. The
service passes in messages and the time; the result is records to write and messages to send. No
message is sent before the records are written, so a restarted master continues from here.

A node is evicted on evidence, not on silence: a reported exit is proof at once; a closed connection
after a grace period, which is shorter when workers fail elsewhere; mere silence only when the lease
is over. What follows for the round is decided in ``resile.master.rounds``.
"""

from __future__ import annotations

from resile.job.elasticity import Elasticity
from resile.job.events import EventKind
from resile.master.admission import answer_after_end, difference, from_where, why_unfit
from resile.master.effects import EffectBatch, Effects
from resile.master.eviction import Replacement, SilenceCheck
from resile.master.member_reports import MemberReports
from resile.master.nodes import NodeEntry, NodeTable
from resile.master.records import MAIN, JobRecord, NodeRecord, RoundPhase
from resile.master.recovery import AbandonedJob, StateRecovery, newest_round
from resile.master.round import Round
from resile.master.rounds import RoundManager
from resile.master.state import GroupState
from resile.wire.messages import (
    Drain,
    Fence,
    Fenced,
    Hello,
    JobDone,
    LocalState,
    Outcome,
    Refused,
    Wait,
)


class Membership:
    """The nodes and rounds of one group."""

    def __init__(
        self,
        state: GroupState,
        *,
        forgotten: bool = False,
        ends_with_job: bool = False,
        how_to_discard: str = "",
    ) -> None:
        """``forgotten``: the job is known to have trained, but its state is lost.

        ``ends_with_job``: this master exits when the job is over, so that another can start.
        ``how_to_discard``: how a person discards the job in the store, instead of continuing it.
        """
        self._state = state
        self._ends_with_job = ends_with_job
        self._abandoned = AbandonedJob(state, how_to_discard)
        self._recovery = StateRecovery(state, forgotten=forgotten)
        self._make_rules()

    def _make_rules(self) -> None:
        self._rounds = RoundManager(self._state)
        self._replacement = Replacement(self._state, self._rounds)
        self._silence_check = SilenceCheck(self._state, self._rounds)
        self.reports = MemberReports(self._state, self._rounds)
        """Takes the reports of the group's nodes."""

    @classmethod
    def restore(
        cls,
        state: GroupState,
        *,
        now: float,
        ends_with_job: bool = False,
        how_to_discard: str = "",
    ) -> Membership:
        """Continue from the records of a store."""
        unseen = state.round.number == 0 and state.job.floor > 0
        restored = cls(
            state,
            forgotten=unseen,
            ends_with_job=ends_with_job,
            how_to_discard=how_to_discard,
        )
        restored._abandoned.expect(state.nodes)
        if state.group == MAIN:
            restored._resume(f"the master resumed round {state.round.number}", now)
        else:  # one event for the master's restart is enough for a job of a thousand groups
            restored._rounds.resume(now)
        return restored

    @property
    def name(self) -> str:
        """The group's name; empty for the main one."""
        return self._state.group

    @property
    def job(self) -> JobRecord:
        """The job's record."""
        return self._state.job

    @property
    def nodes(self) -> NodeTable:
        """The job's nodes."""
        return self._state.nodes

    @property
    def round(self) -> Round:
        """The latest round."""
        return self._state.round

    @property
    def effects(self) -> Effects:
        """Effects and events of the job."""
        return self._state.effects

    @property
    def elasticity(self) -> Elasticity:
        """The group's sizes and timeouts."""
        return self._state.elasticity

    @property
    def training(self) -> bool:
        """Whether workers train in the latest round."""
        return self.round.phase is RoundPhase.RUNNING and not self.job.outcome

    @property
    def handing_over(self) -> bool:
        """Whether members are saving for a planned change."""
        return self._rounds.handing_over

    @property
    def recovering(self) -> bool:
        """Whether agents are being asked what they hold; no node is admitted meanwhile."""
        return self._recovery.recovering

    @property
    def begun(self) -> bool:
        """Whether the group ever had a node."""
        return self.job.next_node > 0 or self.recovering or self.job.outcome is not None

    def pending_effects(self) -> EffectBatch:
        """Return everything that was decided since the last call."""
        return self.effects.take()

    def next_deadline(self, now: float) -> float | None:
        """Return when :meth:`tick` has to be called next, if nothing happens before."""
        if self.job.outcome:
            return None
        if (recall_until := self._recovery.until) is not None:
            return recall_until
        deadlines = [*self._rounds.deadlines(), *self.nodes.deadlines()]
        if len(self.nodes) > len(self.nodes.disconnected):
            deadlines.append(max(now, self._silence_check.next))
        return min(deadlines, default=None)

    # --- events -----------------------------------------------------------------------------

    def hello(self, hello: Hello, *, now: float) -> int | Fenced | JobDone | Refused:
        """An agent connected: return the id of its node, or the refusal."""
        terms = self.elasticity if self.job.agreed else hello.elasticity
        if unfit := why_unfit(hello, job=self.job.job, elasticity=terms):
            return unfit
        if not self.job.agreed:
            self._state.set_job(job=hello.job, elasticity=terms, agreed=True)
        if done := self._state.done():
            return answer_after_end(
                hello, self.job, done, group=self.name, master_ends=self._ends_with_job
            )
        if (seen := newest_round(hello)) > max(self.round.number, self.job.floor):
            self._state.set_job(floor=seen)
        if hello.handover > self.job.handovers:
            self._state.set_job(handovers=hello.handover)
        if refusal := self._ask_what_is_held(hello, now):
            return refusal
        if hello.held is not None:
            return self._come_back(hello, hello.held, now)
        return self._join(hello, now)

    def name_job(self, job: str) -> None:
        """Set the job's name, which an agent of another group gave; sizes are agreed on later."""
        if not self.job.job:
            self._state.set_job(job=job)

    def begin_anew(self, terms: Elasticity, *, now: float) -> None:
        """Restart an independent group after its end, with all restarts; round numbers continue."""
        for node in self.nodes:
            self._state.remove(node)  # it was told of the end, and is about to exit
        self._state.set_job(
            elasticity=terms,
            restarts=0,
            outcome=None,
            reason="",
            report=None,
            left_on_purpose=False,
        )
        self._state.set_phase(RoundPhase.GATHERING, reason="the group was restarted")
        self._make_rules()
        self._rounds.resume(now)
        text = "restarted for a replacement node, with all restarts"
        self._state.record_event(EventKind.GROUP_RESTARTED, text, now)

    def disconnected(self, node_id: int, *, now: float) -> None:
        """A node closed its connection."""
        node = self.nodes.get(node_id)
        if node is None or not node.connected:
            return
        proof_at = now + self.elasticity.connection_grace
        self.nodes.lost_connection(node, proof_at=proof_at, not_before=now)
        self._rounds.suspect(node, now)

    def left(self, fence: Fence, reason: str, *, now: float) -> None:
        """A node leaves on purpose."""
        if node := self.nodes.get(fence.node):
            text = f"{node.label} left: {reason}"
            self._state.record_event(EventKind.NODE_LEFT, text, now, node=node.id)
            self._rounds.leaves_early(node, now)
            self._state.went(on_purpose=True)
            self._remove(node, f"{node.label} left", now)
            self._rounds.consider(now)

    def stop(self, reason: str, *, now: float) -> None:
        """End the job on a person's request."""
        if not self.job.outcome:
            self._rounds.finish(Outcome.STOPPED, reason, now)

    def want(self, nodes: int, *, now: float) -> None:
        """Set how many nodes the platform was asked for: more are not waited for."""
        if nodes != self.job.wanted:
            self._state.set_job(wanted=nodes)
            self._rounds.consider(now)

    def adapt(self, elasticity: Elasticity, *, now: float) -> None:
        """Change the sizes or timeouts of a running job."""
        if elasticity != self.elasticity and not self.job.outcome:
            note = difference(elasticity, self.elasticity)
            self._state.set_job(elasticity=elasticity)
            self._state.record_event(EventKind.JOB_CHANGED, f"{note} from now on", now)
            for node in self.nodes:
                self._state.welcome(node, self.round.number if node.id in self.round else 0)
            self._rounds.consider(now)

    def rest(self, resting: bool, *, now: float) -> None:
        """Suspend or resume the job: while suspended, missing nodes are not waited for."""
        if resting is not self.job.resting and not self.job.outcome:
            self._state.set_job(resting=resting)
            self._rounds.consider(now)

    def drain(self, node_id: int, reason: str) -> bool:
        """Ask a node to leave cleanly; False if there is no such node."""
        if node_id not in self.nodes:
            return False
        self._state.send(node_id, Drain(reason=reason))
        return True

    def tick(self, now: float) -> None:
        """Time has passed: act on every deadline that is over."""
        if self.job.outcome:
            return
        if (recall_until := self._recovery.until) is not None:
            if now < recall_until:
                return
            self._resume(self._recovery.adopt(now), now)
        for node in self.nodes.proven_lost(now):
            self._evict(node, "connection lost", now)
        for node in self.nodes.overdue(now):
            self._evict(node, "rank taken over by a replacement", now)
        for node in self._silence_check.out(now):
            self._evict(node, f"no heartbeat for {self.elasticity.lease:g} s", now)
        for node in self._rounds.not_ready(now):
            self._evict(node, f"not ready within {self.elasticity.forming_timeout:g} s", now)
        self._rounds.check_deadlines(now)
        self._rounds.consider(now)

    def leases_lost(self, *, now: float) -> None:
        """Form the round again: which data it has leased is not known, only its snapshot is."""
        self._rounds.break_round("the leases of its data were lost with the master's state", now)

    # --- lost state -------------------------------------------------------------------------

    def _ask_what_is_held(self, hello: Hello, now: float) -> Refused | None:
        """A master that knows of no round asks first, if an agent holds one or has held one.

        What follows is decided in :meth:`tick`, after the messages of this moment were sent: new
        ids that were given meanwhile may be the same as ids of the forgotten job.
        """
        if not self._recovery.recovering:
            if not self._recovery.concerns(hello):
                return None
            self._recovery.start(now)
            for node in self.nodes:
                self._evict(node, "it joined a master that had lost its state", now)
        return self._recovery.hear(hello, now=now)

    def nobody_holds_anything(self, *, now: float) -> None:
        """Stop waiting for nodes that this master might not know of: all of them are gone."""
        self._recovery.nobody_holds_anything(now=now)

    def _resume(self, sentence: str, now: float) -> None:
        self._rounds.resume(now)
        if self.job.outcome is None:
            self._state.record_event(EventKind.MASTER_RETURNED, sentence, now)

    # --- coming and going -------------------------------------------------------------------

    def _join(self, hello: Hello, now: float) -> int:
        for predecessor in self._replacement.proven_gone(hello.info, now):
            self._evict(predecessor, f"replaced by {hello.info.name}", now)
        record = NodeRecord(id=self.job.next_node, info=hello.info)
        said = (self.job.newest, hello.info.generation)
        newest = max((one for one in said if one is not None), default=None)
        self._state.set_job(next_node=record.id + 1, newest=newest)
        lease_until = now + self.elasticity.lease
        node = NodeEntry(record=record, lease_until=lease_until, warm=hello.warm)
        self._state.add(node)
        self._state.record_event(
            EventKind.NODE_JOINED,
            f"{node.label} joined{from_where(hello.info)}",
            now,
            node=node.id,
        )
        self._state.welcome(node, 0, note=difference(self.elasticity, hello.elasticity))
        self._abandoned.joined(node, hello.elasticity)
        self._rounds.consider(now)
        self._rounds.greet(node)
        return node.id

    def _come_back(self, hello: Hello, held: Fence, now: float) -> int | Fenced:
        node = self.nodes.get(held.node)
        if node is None or node.record.info.name != hello.info.name:
            return Fenced(reason=f"node {held.node} was evicted while it was disconnected")
        if held.round > self.round.number:
            return Fenced(reason=f"round {held.round} is not known to this master")
        self.nodes.reconnected(node, lease_until=now + self.elasticity.lease)
        self._abandoned.came_back(node)
        if hello.warm:
            self.nodes.warmed(node)
        self._state.welcome(node, held.round)
        self._catch_up(node, hello, held, now)
        self._replacement.came_back(node, now)
        self._rounds.consider(now)
        return node.id

    def _catch_up(self, node: NodeEntry, hello: Hello, held: Fence, now: float) -> None:
        """Bring a reconnected node and this master to the same state."""
        phase = self.round.phase
        same = held.round == self.round.number and node.id in self.round
        if same and phase is RoundPhase.RUNNING:
            node.state = hello.state
            if hello.state is LocalState.FAILED:
                self.reports.failed(held, hello.failures, now=now)
            elif hello.state is LocalState.SUCCEEDED:
                self.reports.succeeded(held, now=now)
            elif hello.state is LocalState.IDLE:
                self._rounds.break_round(
                    f"{node.label} stopped its workers while disconnected", now
                )
            elif hello.state is not LocalState.RUNNING:
                self._state.send_start(node.id)
            else:
                self._rounds.remind(node)
            if hello.leaving:
                self._rounds.leaving(node, hello.leaving, now)
        elif same and phase is RoundPhase.FORMING and hello.state is LocalState.READY:
            self.reports.ready(held, hello.store, now=now)
        elif phase is RoundPhase.FORMING and node.id in self.round:
            self._state.send(node.id, self.round.prepare_for(node.id))
        elif hello.state is LocalState.RUNNING:
            self._state.send(node.id, Wait(reason="its round is over", stop_workers=True))

    def _evict(self, node: NodeEntry, why: str, now: float) -> None:
        self._state.send(node.id, Fenced(reason=why))
        self._state.record_event(
            EventKind.NODE_LOST, f"{node.label} was evicted: {why}", now, node=node.id
        )
        self._rounds.evicted(node, why, now)
        self._state.went(on_purpose=False)
        self._remove(node, f"{node.label} was lost", now)

    def _remove(self, node: NodeEntry, reason: str, now: float) -> None:
        self._state.remove(node)
        self._abandoned.gone(node, now)
        self._rounds.lost(node, reason, now)
