"""The agreement of a group's agents, as a state machine: events in, instructions out, no I/O.

Who is in the group, which round it is in, and what each node has to do next. A job has one main
group and may have others (``groups``); where it has not, the group is the job. The service feeds it
what agents say and what time it is; it answers with records to keep and messages to send. Nothing
is sent before the records are kept (the service sees to that), so a master that dies and returns
goes on from here.

Evidence, not silence, puts a node out: a reported exit is proof at once; a closed connection when
it is not back within a grace; the same with workers failing elsewhere, sooner; mere silence only
when the lease is over. What follows for the round is decided in ``formation``.
"""

from __future__ import annotations

from resile.job.elasticity import Elasticity
from resile.job.events import EventKind
from resile.master.admission import answer_after_end, difference, from_where, why_unfit
from resile.master.formation import Formation
from resile.master.journal import Instructions, Journal
from resile.master.leftover import Leftover
from resile.master.lost_memory import LostMemory
from resile.master.member_reports import MemberReports
from resile.master.recall import newest_round
from resile.master.records import MAIN, JobRecord, NodeRecord, RoundPhase
from resile.master.register import Register
from resile.master.rollcall import RollCall
from resile.master.roster import Node, Roster
from resile.master.rounds import Round
from resile.master.succession import Succession
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
    """One group's nodes and rounds."""

    def __init__(
        self,
        register: Register,
        *,
        forgotten: bool = False,
        ends_with_job: bool = False,
        how_to_forget: str = "",
    ) -> None:
        """``forgotten``: the job is known to have trained, though nothing of that is.

        ``ends_with_job``: this master goes when the job is over, and another can begin.
        ``how_to_forget``: what a person does who does not want the job in the store continued.
        """
        self._register = register
        self._ends_with_job = ends_with_job
        self._leftover = Leftover(register, how_to_forget)
        self._lost_memory = LostMemory(register, forgotten=forgotten)
        self._make_rules()

    def _make_rules(self) -> None:
        self._formation = Formation(self._register)
        self._succession = Succession(self._register, self._formation)
        self._roll_call = RollCall(self._register, self._formation)
        self.reports = MemberReports(self._register, self._formation)
        """What the group's nodes report about themselves and their workers."""

    @classmethod
    def restore(
        cls,
        register: Register,
        *,
        now: float,
        ends_with_job: bool = False,
        how_to_forget: str = "",
    ) -> Membership:
        """Go on from what a store kept."""
        unseen = register.round.number == 0 and register.job.floor > 0
        restored = cls(
            register,
            forgotten=unseen,
            ends_with_job=ends_with_job,
            how_to_forget=how_to_forget,
        )
        restored._leftover.expect(register.roster)
        if register.group == MAIN:
            restored._resume(f"the master resumed round {register.round.number}", now)
        else:  # one story of the master's return is enough for a job of a thousand groups
            restored._formation.resume(now)
        return restored

    @property
    def name(self) -> str:
        """The group's; empty for the main one."""
        return self._register.group

    @property
    def job(self) -> JobRecord:
        """The job's record."""
        return self._register.job

    @property
    def roster(self) -> Roster:
        """The job's nodes."""
        return self._register.roster

    @property
    def round(self) -> Round:
        """The latest round."""
        return self._register.round

    @property
    def journal(self) -> Journal:
        """What happened."""
        return self._register.journal

    @property
    def elasticity(self) -> Elasticity:
        """The job's sizes and patience."""
        return self._register.elasticity

    @property
    def training(self) -> bool:
        """Whether workers train in the latest round."""
        return self.round.phase is RoundPhase.RUNNING and not self.job.outcome

    @property
    def handing_over(self) -> bool:
        """Whether everybody is saving for a planned change."""
        return self._formation.handing_over

    @property
    def recalling(self) -> bool:
        """Whether agents are being asked what they hold; nobody is taken in meanwhile."""
        return self._lost_memory.recalling

    @property
    def begun(self) -> bool:
        """Whether a node of the group was ever heard of."""
        return self.job.next_node > 0 or self.recalling or self.job.outcome is not None

    def instructions(self) -> Instructions:
        """All that was decided since the last call."""
        return self.journal.take()

    def next_deadline(self, now: float) -> float | None:
        """When :meth:`tick` has something to do, should nothing happen before."""
        if self.job.outcome:
            return None
        if (recall_until := self._lost_memory.until) is not None:
            return recall_until
        deadlines = [*self._formation.deadlines(), *self.roster.deadlines()]
        if len(self.roster) > len(self.roster.limbo):
            deadlines.append(max(now, self._roll_call.next))
        return min(deadlines, default=None)

    # --- events -----------------------------------------------------------------------------

    def hello(self, hello: Hello, *, now: float) -> int | Fenced | JobDone | Refused:
        """Somebody connected: the id of its node, or the answer that sends it away."""
        terms = self.elasticity if self.job.agreed else hello.elasticity
        if unfit := why_unfit(hello, job=self.job.job, elasticity=terms):
            return unfit
        if not self.job.agreed:
            self._register.set_job(job=hello.job, elasticity=terms, agreed=True)
        if done := self._register.done():
            return answer_after_end(
                hello, self.job, done, group=self.name, master_ends=self._ends_with_job
            )
        if (seen := newest_round(hello)) > max(self.round.number, self.job.floor):
            self._register.set_job(floor=seen)
        if hello.handover > self.job.handovers:
            self._register.set_job(handovers=hello.handover)
        if refusal := self._ask_what_is_held(hello, now):
            return refusal
        if hello.held is not None:
            return self._come_back(hello, hello.held, now)
        return self._join(hello, now)

    def name_job(self, job: str) -> None:
        """An agent of another group said what the job is called; its sizes stay to be agreed on."""
        if not self.job.job:
            self._register.set_job(job=job)

    def begin_anew(self, terms: Elasticity, *, now: float) -> None:
        """An independent group goes on after its end, with all restarts; rounds count on."""
        for node in self.roster:
            self._register.remove(node)  # it was told of the end, and is on its way out
        self._register.set_job(
            elasticity=terms,
            restarts=0,
            outcome=None,
            reason="",
            report=None,
            left_on_purpose=False,
        )
        self._register.set_phase(RoundPhase.GATHERING, reason="the group begins anew")
        self._make_rules()
        self._formation.resume(now)
        text = "it begins anew for a replacement, with all restarts"
        self._register.tell(EventKind.GROUP_BEGUN_ANEW, text, now)

    def disconnected(self, node_id: int, *, now: float) -> None:
        """A node's connection was closed by the other side."""
        node = self.roster.get(node_id)
        if node is None or not node.connected:
            return
        proof_at = now + self.elasticity.connection_grace
        self.roster.lost_connection(node, proof_at=proof_at, not_before=now)
        self._formation.suspect(node, now)

    def left(self, fence: Fence, reason: str, *, now: float) -> None:
        """A node goes on purpose."""
        if node := self.roster.get(fence.node):
            text = f"{node.label} left: {reason}"
            self._register.tell(EventKind.NODE_LEFT, text, now, node=node.id)
            self._formation.leaves_early(node, now)
            self._register.went(on_purpose=True)
            self._remove(node, f"{node.label} left", now)
            self._formation.consider(now)

    def stop(self, reason: str, *, now: float) -> None:
        """A person wants the job to end."""
        if not self.job.outcome:
            self._formation.finish(Outcome.STOPPED, reason, now)

    def want(self, nodes: int, *, now: float) -> None:
        """The platform was asked for so many nodes: nobody has to wait for more than these."""
        if nodes != self.job.wanted:
            self._register.set_job(wanted=nodes)
            self._formation.consider(now)

    def adapt(self, elasticity: Elasticity, *, now: float) -> None:
        """The job's sizes or its patience were changed while it runs."""
        if elasticity != self.elasticity and not self.job.outcome:
            note = difference(elasticity, self.elasticity)
            self._register.set_job(elasticity=elasticity)
            self._register.tell(EventKind.JOB_CHANGED, f"{note} from now on", now)
            for node in self.roster:
                self._register.welcome(node, self.round.number if node.id in self.round else 0)
            self._formation.consider(now)

    def rest(self, resting: bool, *, now: float) -> None:
        """Whether the job is to be without nodes for a while: then nobody is waited for."""
        if resting is not self.job.resting and not self.job.outcome:
            self._register.set_job(resting=resting)
            self._formation.consider(now)

    def drain(self, node_id: int, reason: str) -> bool:
        """Ask a node to leave cleanly. False if there is no such node."""
        if node_id not in self.roster:
            return False
        self._register.send(node_id, Drain(reason=reason))
        return True

    def tick(self, now: float) -> None:
        """Time has passed: act on every deadline that is over."""
        if self.job.outcome:
            return
        if (recall_until := self._lost_memory.until) is not None:
            if now < recall_until:
                return
            self._resume(self._lost_memory.adopt(now), now)
        for node in self.roster.proven_lost(now):
            self._evict(node, "its connection was lost", now)
        for node in self.roster.overstaying(now):
            self._evict(node, "another node has its place", now)
        for node in self._roll_call.out(now):
            self._evict(node, f"no sign of life for {self.elasticity.lease:g} s", now)
        for node in self._formation.unready(now):
            self._evict(node, f"not ready within {self.elasticity.forming_timeout:g} s", now)
        self._formation.check_deadlines(now)
        self._formation.consider(now)

    def leases_lost(self, *, now: float) -> None:
        """What the running round took of its data is not known: only a snapshot says."""
        self._formation.spoilt("what was leased of the data was lost with the master's memory", now)

    # --- a lost memory ----------------------------------------------------------------------

    def _ask_what_is_held(self, hello: Hello, now: float) -> Refused | None:
        """A master that knows of no round asks first, if an agent holds one or has held one.

        What follows is decided in :meth:`tick`, when everything that is said now was sent: ids of
        the forgotten job may be those that were given in the meantime.
        """
        if not self._lost_memory.recalling:
            if not self._lost_memory.concerns(hello):
                return None
            self._lost_memory.start_recall(now)
            for node in self.roster:
                self._evict(node, "it joined a master that had lost its memory", now)
        return self._lost_memory.hear(hello, now=now)

    def nobody_holds_anything(self, *, now: float) -> None:
        """All nodes that this master might not know of are gone: there is nobody to wait for."""
        self._lost_memory.nobody_holds_anything(now=now)

    def _resume(self, sentence: str, now: float) -> None:
        self._formation.resume(now)
        if self.job.outcome is None:
            self._register.tell(EventKind.MASTER_RETURNED, sentence, now)

    # --- coming and going -------------------------------------------------------------------

    def _join(self, hello: Hello, now: float) -> int:
        for predecessor in self._succession.proven_gone(hello.info, now):
            self._evict(predecessor, f"replaced by {hello.info.name}", now)
        record = NodeRecord(id=self.job.next_node, info=hello.info)
        said = (self.job.newest, hello.info.generation)
        newest = max((one for one in said if one is not None), default=None)
        self._register.set_job(next_node=record.id + 1, newest=newest)
        lease_until = now + self.elasticity.lease
        node = Node(record=record, lease_until=lease_until, warm=hello.warm)
        self._register.add(node)
        self._register.tell(
            EventKind.NODE_JOINED,
            f"{node.label} joined{from_where(hello.info)}",
            now,
            node=node.id,
        )
        self._register.welcome(node, 0, note=difference(self.elasticity, hello.elasticity))
        self._leftover.joined(node, hello.elasticity)
        self._formation.consider(now)
        self._formation.greet(node)
        return node.id

    def _come_back(self, hello: Hello, held: Fence, now: float) -> int | Fenced:
        node = self.roster.get(held.node)
        if node is None or node.record.info.name != hello.info.name:
            return Fenced(reason=f"node {held.node} was put out of the job while it was away")
        if held.round > self.round.number:
            return Fenced(reason=f"this master knows nothing of round {held.round}")
        self.roster.is_back(node, lease_until=now + self.elasticity.lease)
        self._leftover.came_back(node)
        if hello.warm:
            self.roster.warmed(node)
        self._register.welcome(node, held.round)
        self._catch_up(node, hello, held, now)
        self._succession.came_back(node, now)
        self._formation.consider(now)
        return node.id

    def _catch_up(self, node: Node, hello: Hello, held: Fence, now: float) -> None:
        """Bring a returned node and this master to the same state."""
        phase = self.round.phase
        same = held.round == self.round.number and node.id in self.round
        if same and phase is RoundPhase.RUNNING:
            node.state = hello.state
            if hello.state is LocalState.FAILED:
                self.reports.failed(held, hello.failures, now=now)
            elif hello.state is LocalState.SUCCEEDED:
                self.reports.succeeded(held, now=now)
            elif hello.state is LocalState.IDLE:
                self._formation.spoilt(f"{node.label} stopped its workers while cut off", now)
            elif hello.state is not LocalState.RUNNING:
                self._register.send_start(node.id)
            else:
                self._formation.remind(node)
            if hello.leaving:
                self._formation.leaving(node, hello.leaving, now)
        elif same and phase is RoundPhase.FORMING and hello.state is LocalState.READY:
            self.reports.ready(held, hello.store, now=now)
        elif phase is RoundPhase.FORMING and node.id in self.round:
            self._register.send(node.id, self.round.prepare_for(node.id))
        elif hello.state is LocalState.RUNNING:
            self._register.send(node.id, Wait(reason="its round is over", stop_workers=True))

    def _evict(self, node: Node, why: str, now: float) -> None:
        self._register.send(node.id, Fenced(reason=why))
        self._register.tell(
            EventKind.NODE_LOST, f"{node.label} was put out: {why}", now, node=node.id
        )
        self._formation.evicted(node, why, now)
        self._register.went(on_purpose=False)
        self._remove(node, f"{node.label} was lost", now)

    def _remove(self, node: Node, reason: str, now: float) -> None:
        self._register.remove(node)
        self._leftover.gone(node, now)
        self._formation.lost(node, reason, now)
