"""The agreement of a job's agents, as a state machine: events in, instructions out, no I/O.

Who is in the job, which round it is in, and what each node has to do next. The service feeds it
what agents say and what time it is; it answers with records to keep and messages to send. Nothing
is sent before the records are kept (the service sees to that), so a master that dies and returns
goes on from here.

Evidence, not silence, puts a node out: a reported exit is proof at once; a closed connection when
it is not back within a grace; the same with workers failing elsewhere, sooner; mere silence only
when the lease is over. A worker's own failure costs one of the job's restarts; one that turns out
to be the echo of a lost node does not.
"""

from __future__ import annotations

from collections.abc import Collection

from resile.job.elasticity import Elasticity
from resile.master.deadlines import Deadlines, is_over
from resile.master.failures import Failures, describe_failures
from resile.master.journal import Instructions, Journal
from resile.master.records import JobRecord, NodeRecord, RoundPhase, RoundRecord
from resile.master.register import Register
from resile.master.roster import Node, Roster
from resile.master.rounds import Round
from resile.master.selection import assign_slots, choose_members
from resile.wire.messages import (
    Drain,
    FailureReport,
    Fence,
    Fenced,
    Hello,
    JobDone,
    LocalState,
    Outcome,
    Progress,
    Refused,
    StoreAddress,
    Wait,
    WorkerFailure,
)

ROLL_CALLS_PER_LEASE = 10
"""How often it is looked who is silent: a tenth of a lease late is not late."""


SPARE = "waiting as a spare: the job has all the nodes it may use"
WARMING = "warming up: training goes on without this node until it can start workers at once"


class Membership:
    """One job's nodes and rounds."""

    def __init__(self, register: Register) -> None:
        self._register = register
        self._until = Deadlines()
        self._failures = Failures()
        self._broken = ""
        """Why the round cannot go on; empty while it can."""
        self._charged = False
        """The round being formed cost a restart, which a lost node's echo gets back."""
        self._next_roll_call = 0.0

    @classmethod
    def restore(cls, register: Register, *, now: float) -> Membership:
        """Go on from what a store kept."""
        restored = cls(register)
        if register.round.phase is RoundPhase.FORMING:
            restored._until.forming = now + register.elasticity.forming_timeout
        if register.job.outcome is None:
            number = register.round.number
            register.tell("MasterReturned", f"the master resumed round {number}", now)
        return restored

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

    def instructions(self) -> Instructions:
        """All that was decided since the last call."""
        return self.journal.take()

    def next_deadline(self, now: float) -> float | None:
        """When :meth:`tick` has something to do, should nothing happen before."""
        if self.job.outcome:
            return None
        deadlines = [*self._until.pending(), *self.roster.deadlines()]
        if len(self.roster) > len(self.roster.limbo):
            deadlines.append(max(now, self._next_roll_call))
        return min(deadlines, default=None)

    # --- events -----------------------------------------------------------------------------

    def hello(self, hello: Hello, *, now: float) -> int | Fenced | JobDone | Refused:
        """Somebody connected: the id of its node, or the answer that sends it away."""
        if not self.job.agreed:
            self._register.set_job(job=hello.job, elasticity=hello.elasticity, agreed=True)
        if hello.job != self.job.job:
            reason = f"this master serves the job '{self.job.job}', not '{hello.job}'"
            return Refused(reason=reason, final=True)
        if done := self._register.done():
            return done
        if hello.held is not None:
            return self._come_back(hello, hello.held, now)
        return self._join(hello, now)

    def heard(self, fence: Fence, *, now: float) -> None:
        """Whatever a node says, it is alive."""
        if node := self.roster.get(fence.node):
            node.lease_until = now + self.elasticity.lease

    def renew(self, fence: Fence, progress: Progress | None, *, now: float) -> str | None:
        """A sign of life. This and the following return why a message was refused, if it was."""
        node = self.roster.get(fence.node)
        if node is None:
            return f"node {fence.node} is not in the job"
        self.heard(fence, now=now)
        if progress is not None:
            node.progress = progress
        return None

    def disconnected(self, node_id: int, *, now: float) -> None:
        """A node's connection was closed by the other side."""
        node = self.roster.get(node_id)
        if node is None or not node.connected:
            return
        proof_at = now + self.elasticity.connection_grace
        self.roster.lost_connection(node, proof_at=proof_at, not_before=now)
        if node_id not in self.round:
            return
        if self._until.verdict is not None:
            self._until.verdict = None
            self._broken = f"{node.label} was lost"
        if self._broken or self._charged:
            self._hasten(now)

    def warmed(self, fence: Fence, *, now: float) -> str | None:
        """A node can start workers at once: now it may be taken into a running job."""
        node = self.roster.get(fence.node)
        if node is None:
            return f"node {fence.node} is not in the job"
        self.roster.warmed(node)
        self._consider(now)
        return None

    def ready(self, fence: Fence, store: StoreAddress | None, *, now: float) -> str | None:
        """A member stopped its old workers; the first of them has opened the store."""
        if refusal := self._register.why_stale(fence, RoundPhase.FORMING):
            return refusal
        hosts = fence.node == self.round.members[0]
        if hosts and store is None:
            return f"node {fence.node} hosts the store and did not say where it is"
        self.roster[fence.node].state = LocalState.READY
        self.round.ready.add(fence.node)
        if hosts:
            self.round.change(phase=self.round.phase, store=store, reason=self.round.record.reason)
        if self.round.all_ready():
            self._start(now)
        return None

    def failed(
        self, fence: Fence, failures: tuple[WorkerFailure, ...], *, now: float
    ) -> str | None:
        """Workers of a node failed."""
        if refusal := self._register.why_stale(fence, RoundPhase.RUNNING):
            return refusal
        node = self.roster[fence.node]
        node.state = LocalState.FAILED
        for failure in failures:
            self._failures.note(node.record, failure, reported_at=self.journal.wall(now))
        self._worker_failure(describe_failures(failures, node.label), now)
        return None

    def succeeded(self, fence: Fence, *, now: float) -> str | None:
        """All workers of a node ended well."""
        if refusal := self._register.why_stale(fence, RoundPhase.RUNNING):
            return refusal
        self.roster[fence.node].state = LocalState.SUCCEEDED
        self.round.succeeded.add(fence.node)
        self._consider(now)
        return None

    def reached(
        self, fence: Fence, reached: tuple[int, ...], missing: tuple[int, ...], *, now: float
    ) -> str | None:
        """Which workers of a node have come to the round's store, as global ranks."""
        if refusal := self._register.why_stale(fence, RoundPhase.RUNNING):
            return refusal
        node = self.roster[fence.node]
        first = self.round.first_rank(node.id)
        if not set(range(first, first + node.record.info.nproc)).issuperset({*reached, *missing}):
            return f"these ranks are not all of node {node.id}'s workers"
        node.missing = missing
        (self.round.reached.add if reached else self.round.reached.discard)(fence.node)
        (self.round.late.add if missing else self.round.late.discard)(fence.node)
        uneven = self.round.reached and self.round.late and self.elasticity.start_timeout
        if not uneven:
            self._until.start = None
        elif self._until.start is None:
            self._until.start = now + self.elasticity.start_timeout
        return None

    def left(self, fence: Fence, reason: str, *, now: float) -> None:
        """A node goes on purpose."""
        if node := self.roster.get(fence.node):
            self._register.tell("NodeLeft", f"{node.label} left: {reason}", now, node=node.id)
            self._remove(node, f"{node.label} left", now)
            self._consider(now)

    def stop(self, reason: str, *, now: float) -> None:
        """A person wants the job to end."""
        if not self.job.outcome:
            self._finish(Outcome.STOPPED, reason, now)

    def want(self, nodes: int, *, now: float) -> None:
        """The platform was asked for so many nodes: nobody has to wait for more than these."""
        if nodes != self.job.wanted:
            self._register.set_job(wanted=nodes)
            self._consider(now)

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
        for node in self.roster.proven_lost(now):
            self._evict(node, "its connection was lost", now)
        if now >= self._next_roll_call:
            self._next_roll_call = now + self.elasticity.lease / ROLL_CALLS_PER_LEASE
            for node in self.roster.silent(now):
                self._evict(node, f"no sign of life for {self.elasticity.lease:g} s", now)
        self._check_deadlines(now)
        self._consider(now)

    # --- coming and going -------------------------------------------------------------------

    def _join(self, hello: Hello, now: float) -> int:
        self._supersede(hello, now)
        record = NodeRecord(id=self.job.next_node, info=hello.info)
        self._register.set_job(next_node=record.id + 1)
        lease_until = now + self.elasticity.lease
        node = Node(record=record, lease_until=lease_until, warm=hello.warm)
        self._register.add(node)
        self._register.tell(
            "NodeJoined", f"{node.label} joined from {hello.info.host}", now, node=node.id
        )
        self._register.welcome(node, 0, note=_difference(self.elasticity, hello.elasticity))
        self._consider(now)
        if self._until.join is not None:
            self._tell_shortage(node)
        return node.id

    def _supersede(self, hello: Hello, now: float) -> None:
        """A replacement proves its predecessor dead: same slot, and the old one away or older."""
        info = hello.info
        if info.rank is None:
            return
        for node in self.roster.claimants(info.rank):
            old = node.record.info
            newer = (info.generation or 0) > (old.generation or 0)
            if old.role == info.role and (newer or not node.connected):
                self._evict(node, f"replaced by {info.name}", now)

    def _come_back(self, hello: Hello, held: Fence, now: float) -> int | Fenced:
        node = self.roster.get(held.node)
        if node is None or node.record.info.name != hello.info.name:
            return Fenced(reason=f"node {held.node} was put out of the job while it was away")
        self.roster.is_back(node, lease_until=now + self.elasticity.lease)
        if hello.warm:
            self.roster.warmed(node)
        self._register.welcome(node, held.round)
        self._catch_up(node, hello, held, now)
        self._consider(now)
        return node.id

    def _catch_up(self, node: Node, hello: Hello, held: Fence, now: float) -> None:
        """Bring a returned node and this master to the same state."""
        phase = self.round.phase
        same = held.round == self.round.number and node.id in self.round
        if same and phase is RoundPhase.RUNNING:
            node.state = hello.state
            if hello.state is LocalState.FAILED:
                self.failed(held, hello.failures, now=now)
            elif hello.state is LocalState.SUCCEEDED:
                self.succeeded(held, now=now)
            elif hello.state is not LocalState.RUNNING:
                self._register.send_start(node.id)
        elif same and phase is RoundPhase.FORMING and hello.state is LocalState.READY:
            self.ready(held, hello.store, now=now)
        elif phase is RoundPhase.FORMING and node.id in self.round:
            self._register.send(node.id, self.round.prepare_for(node.id))
        elif hello.state is LocalState.RUNNING:
            self._register.send(node.id, Wait(reason="its round is over", stop_workers=True))

    def _evict(self, node: Node, why: str, now: float) -> None:
        self._register.send(node.id, Fenced(reason=why))
        self._register.tell("NodeLost", f"{node.label} was put out: {why}", now, node=node.id)
        if self._charged and node.id in self.round:
            # The workers that failed a moment ago failed because this node was dying.
            self._register.set_job(restarts=self.job.restarts - 1)
            self._charged = False
        self._remove(node, f"{node.label} was lost", now)

    def _remove(self, node: Node, reason: str, now: float) -> None:
        self._register.remove(node)
        if node.id in self.round and node.state is not LocalState.SUCCEEDED:
            self._broken = self._broken or reason
            self._until.verdict = None
            self._hasten(now)

    def _hasten(self, now: float) -> None:
        self.roster.hasten(self.round.members, proof_at=now + self.elasticity.evidence_grace)

    # --- failures ---------------------------------------------------------------------------

    def _worker_failure(self, reason: str, now: float) -> None:
        if self._broken:
            return
        self._register.tell("WorkersFailed", reason, now)
        if self.roster.limbo.intersection(self.round.members):
            self._broken = reason
            self._hasten(now)
        elif self.job.restarts < self.elasticity.max_restarts:
            self._register.set_job(restarts=self.job.restarts + 1)
            self._charged = True
            self._broken = reason
        elif self._until.verdict is None:
            self._until.verdict = now + self.elasticity.verdict_window
        self._consider(now)

    def _late_start(self, now: float) -> None:
        """Some workers never reached the process group: as bad as a crash, and as curable."""
        why = f"did not reach the process group within {self.elasticity.start_timeout:g} s"
        late = [self.roster[node] for node in sorted(self.round.late) if node in self.roster]
        for node in late:
            first = self.round.first_rank(node.id)
            for rank in node.missing:
                failure = WorkerFailure(
                    local_rank=rank - first, rank=rank, pid=0, exit_code=0, message=why
                )
                self._failures.note(node.record, failure, reported_at=self.journal.wall(now))
        ranks = ", ".join(str(rank) for node in late for rank in node.missing)
        self._worker_failure(f"rank {ranks} {why}, while others did", now)

    def _fail(self, reason: str, now: float) -> None:
        self._finish(Outcome.FAILED, reason, now, report=self._failures.first())

    # --- rounds -----------------------------------------------------------------------------

    def _check_deadlines(self, now: float) -> None:
        until = self._until
        if is_over(until.start, now):
            until.start = None
            self._late_start(now)
        if is_over(until.forming, now):
            until.forming = None
            why = f"not ready within {self.elasticity.forming_timeout:g} s"
            for node_id in set(self.round.members) - self.round.ready:
                if node := self.roster.get(node_id):
                    self._evict(node, why, now)
        if is_over(until.verdict, now):
            until.verdict = None
            self._fail(f"a worker failed and all {self.job.restarts} restarts are used up", now)
        if is_over(until.join, now):
            until.join = None
            self._fail(f"gave up after {self.elasticity.join_timeout:g} s: {self._shortage()}", now)

    def _consider(self, now: float) -> None:
        """Look at everything and take the next step, if there is one to take."""
        if self.job.outcome:
            return
        if self.round.complete():
            self._finish(Outcome.SUCCEEDED, "all workers ended well", now)
            return
        if self.round.phase is RoundPhase.RUNNING and not self._broken:
            self._consider_newcomers(now)
        if self._broken and self.round.phase is not RoundPhase.GATHERING:
            self._register.set_phase(RoundPhase.GATHERING, reason=self._broken)
            self._until = Deadlines()
        if self.round.phase is RoundPhase.GATHERING:
            self._close_if_possible(now)

    def _consider_newcomers(self, now: float) -> None:
        present = len(self._candidates())
        grown = self.elasticity.world_of(present) > len(self.round.members)
        ending = self.round.succeeded
        if not grown or ending or self.roster.limbo or self._until.verdict is not None:
            self._until.settle = None
            self._tell_spares()
        elif self._until.settle is None:
            self._until.settle = now + self.elasticity.join_settle
        elif self._until.settle <= now:
            self._broken = "new nodes joined"

    def _tell_spares(self) -> None:
        if len(self.roster) <= len(self.round.members):
            return
        for node in self.roster:
            if node.id not in self.round:
                self._register.tell_wait(node, SPARE if node.warm else WARMING)

    def _close_if_possible(self, now: float) -> None:
        """A round closes as soon as it can: nobody in limbo, enough nodes, no last call open."""
        if self.roster.limbo:
            return
        size = self.elasticity.world_of(len(self._candidates()))
        if not size:
            self._wait_for_nodes(now)
            return
        self._until.join = None
        if self.round.number > 0 or self._last_call_over(size, now):
            self._close(size, now)

    def _last_call_over(self, size: int, now: float) -> bool:
        """First round only: everyone who can come is here, or the window is over."""
        known = self.job.wanted if self.job.wanted is not None else self.elasticity.max_nodes
        if size >= self.elasticity.world_of(max(known, self.elasticity.smallest_world)):
            return True
        if self._until.last_call is None:
            self._until.last_call = now + self.elasticity.last_call
        return self._until.last_call <= now

    def _wait_for_nodes(self, now: float) -> None:
        self._until.last_call = None
        if self._until.join is None:
            self._until.join = now + self.elasticity.join_timeout
            for node in self.roster:
                self._tell_shortage(node)

    def _tell_shortage(self, node: Node) -> None:
        """Said once to each: telling all of every newcomer would cost the square of n."""
        self._register.tell_wait(node, f"waiting for nodes: {self._shortage()}")

    def _candidates(self) -> Collection[Node]:
        """Who may be in the next round: once a job has trained, the warm ones if they suffice."""
        if self.round.number == 0 or not self.roster.cold:
            return self.roster
        warm = self.roster.ready_to_train()
        return warm if self.elasticity.world_of(len(warm)) else self.roster

    def _shortage(self) -> str:
        return f"{len(self.roster)} of at least {self.elasticity.smallest_world} are here"

    def _close(self, size: int, now: float) -> None:
        """Choose the members of a new round and have them prepare."""
        records = [node.record for node in self._candidates()]
        slots = assign_slots(choose_members(records, self.round.members, size=size))
        for node_id, slot in slots.items():
            self._register.set_slot(self.roster[node_id], slot)
        record = RoundRecord(
            number=self.round.number + 1,
            phase=RoundPhase.FORMING,
            members=tuple(sorted(slots, key=slots.__getitem__)),
            reason=self._broken or "first round",
        )
        self._register.open_round(record)
        self._broken = ""
        self._until = Deadlines(forming=now + self.elasticity.forming_timeout)
        text = f"round {record.number} forms with {size} nodes: {record.reason}"
        self._register.tell("RoundForming", text, now)
        for node in self.roster:
            node.state, node.told, node.missing = LocalState.IDLE, "", ()
        for member in record.members:
            self._register.send(member, self.round.prepare_for(member))
        self._tell_spares()

    def _start(self, now: float) -> None:
        """Every member is ready: the workers may go."""
        self._until.forming = None
        self._charged = False
        self._failures.clear()
        self._register.set_phase(RoundPhase.RUNNING, reason=self.round.record.reason)
        nodes, world = len(self.round.members), self.round.world_size
        self._register.tell(
            "RoundRunning", f"round {self.round.number}: {nodes} nodes, {world} workers", now
        )
        for member in self.round.members:
            self.roster[member].state = LocalState.RUNNING
            self._register.send_start(member)
        self._consider(now)

    def _finish(
        self, outcome: Outcome, reason: str, now: float, *, report: FailureReport | None = None
    ) -> None:
        self._register.set_job(outcome=outcome, reason=reason, report=report)
        self._until = Deadlines()
        self._register.tell(
            f"Job{outcome.value.capitalize()}", f"the job {outcome.value}: {reason}", now
        )
        if done := self._register.done():
            for node in self.roster:
                self._register.send(node.id, done)


def _difference(ours: Elasticity, theirs: Elasticity) -> str:
    """What a newcomer asked for and does not get, because the job was agreed on otherwise."""
    fields = Elasticity.__struct_fields__
    names = [name for name in fields if getattr(ours, name) != getattr(theirs, name)]
    changed = ", ".join(f"{name}={getattr(ours, name)}" for name in names)
    return f"the job runs with {changed}" if changed else ""
