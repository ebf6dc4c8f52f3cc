"""Consequences of a lost node or a failed worker: a restart, a new round, the end of the job.

A worker's own failure costs one of the job's restarts. One that is the consequence of a lost node
does not, and it is often reported before the loss of that node is known. So where a failure would
end the job, or dismiss a newcomer, the verdict waits for ``verdict_window``, and the loss of a
member in that time overturns it.

The judge decides; :class:`~resile.master.formation.Formation` acts on the consequences that it
returns. Both use :attr:`FailureJudge.broken`: the reason why the round cannot continue.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from resile.job.elasticity import Elasticity
from resile.job.events import EventKind
from resile.master.attribution import is_newcomers_own, restarts_used_up, why_hopeless
from resile.master.deadlines import is_over
from resile.master.failures import Failures, describe_failures
from resile.master.records import JobRecord, RoundPhase
from resile.master.register import Register
from resile.master.roster import Node
from resile.master.rounds import Round
from resile.master.stagnation import FREE_LOSSES, Stagnation
from resile.wire.messages import FailureReport, LocalState, WorkerFailure

__all__ = ["Consequence", "FailureJudge", "JobFails", "NodeDismissed", "RoundChanged"]


@dataclass(frozen=True)
class JobFails:
    """The job ends with a failure."""

    reason: str


@dataclass(frozen=True)
class NodeDismissed:
    """The job continues without a node that cannot run the script."""

    node: Node
    why: str


@dataclass(frozen=True)
class RoundChanged:
    """The round is broken, or a verdict is pending: the round has to be considered again."""


Consequence: TypeAlias = JobFails | NodeDismissed | RoundChanged


class FailureJudge:
    """Decides what the failures of one group's rounds mean."""

    def __init__(self, register: Register) -> None:
        self._register = register
        self._roster = register.roster
        self._failures = Failures()
        self._stagnation = Stagnation()
        self.broken = ""
        """Why the round cannot continue; empty while it can."""
        self._charged = False
        """The round being formed cost a restart, which is refunded if a lost node was the cause."""
        self._by_workers = False
        """The round is broken because workers failed; a lost node may turn out to be the cause."""
        self._blamed: int | None = None
        """The newcomer that is dismissed by the verdict, unless a member is lost before."""
        self._verdict_at: float | None = None
        self._late_at: float | None = None
        """When workers that have not reached the process group count as failed."""

    @property
    def _job(self) -> JobRecord:
        return self._register.job

    @property
    def _round(self) -> Round:
        return self._register.round

    @property
    def _elasticity(self) -> Elasticity:
        return self._register.elasticity

    @property
    def undecided(self) -> bool:
        """Whether a verdict is pending."""
        return self._verdict_at is not None

    def first_failure(self) -> FailureReport | None:
        """Return the failure that most likely caused the others."""
        return self._failures.first()

    # --- the course of rounds ---------------------------------------------------------------

    def deadlines(self) -> list[float]:
        """Return when :meth:`check_late_start` or :meth:`check_verdict` has something to do."""
        return [at for at in (self._verdict_at, self._late_at) if at is not None]

    def forget_deadlines(self) -> None:
        """Clear all deadlines: the round that they were set for is over."""
        self._verdict_at = self._late_at = None

    def acquit(self) -> None:
        """Blame no newcomer: the round is broken for another reason."""
        self._blamed = None

    def round_forms(self) -> None:
        """A new round forms: the reason why the last one broke is settled."""
        self.broken, self._by_workers = "", False
        self.forget_deadlines()

    def round_starts(self, now: float) -> None:
        """Workers train from now on."""
        self._charged = False
        self._failures.clear()
        self._stagnation.round_starts(now)

    def progressed(self, node: Node, step: int) -> None:
        """A node's workers report steps: they have reached the process group."""
        self._stagnation.reported(step)
        if self._round.phase is RoundPhase.RUNNING and node.id in self._round:
            self._register.reached_group(node)

    # --- lost nodes -------------------------------------------------------------------------

    def suspect(self, node: Node, now: float) -> None:
        """A member's connection is gone: failures seen elsewhere point at it."""
        if node.id not in self._round:
            return
        if self._verdict_at is not None:
            self._verdict_at = self._blamed = None
            self.broken = f"{node.label} was lost"
        if self.broken or self._charged:
            self._hasten(now)

    def evicted(self, node: Node, why: str, now: float) -> JobFails | None:
        """A node is being evicted (before :meth:`lost`): settle which failure was the cause."""
        if self._charged and node.id in self._round:
            # The workers that failed a moment ago failed because this node was dying.
            self._register.set_job(restarts=self._job.restarts - 1)
            self._charged = False
        if node.id not in self._round or node.state is LocalState.SUCCEEDED:
            return None
        noticed_at = self._register.journal.wall(now)
        rank = self._round.first_rank(node.id)
        self._failures.note_lost(
            node.record, rank, f"the node was lost: {why}", noticed_at=noticed_at
        )
        running = self._round.phase is RoundPhase.RUNNING
        if running and self._stagnation.lost(_identity(node), now):
            return JobFails(
                f"{node.label} was lost {FREE_LOSSES} times ({why}), "
                "and training got no further in between"
            )
        return None

    def lost(self, node: Node, reason: str, now: float) -> None:
        """A node is out of the job: the round continues only if the node had finished."""
        if node.id in self._round and node.state is not LocalState.SUCCEEDED:
            if self._by_workers or not self.broken:
                self.broken, self._by_workers = reason, False
            self._verdict_at = self._blamed = None
            self._hasten(now)

    def spoilt(self, reason: str) -> RoundChanged:
        """The round cannot continue, and no worker is the cause: it costs no restart."""
        self.broken = self.broken or reason
        return RoundChanged()

    def _hasten(self, now: float) -> None:
        self._roster.hasten(self._round.members, proof_at=now + self._elasticity.evidence_grace)

    # --- failed workers ---------------------------------------------------------------------

    def failed(
        self, node: Node, failures: tuple[WorkerFailure, ...], now: float, *, needed: bool
    ) -> JobFails | RoundChanged | None:
        """Workers of a member failed. ``needed``: the group cannot train without that member."""
        for failure in failures:
            self._note(node, failure, now)
        text = describe_failures(failures, node.label)
        if self._blamed is not None and self._failures.first_node == self._blamed:
            return None  # a consequence of the newcomer's failure
        if hopeless := why_hopeless(self._register, failures, needed=needed):
            self._register.tell(EventKind.WORKERS_FAILED, text, now)
            return JobFails(hopeless)
        if self.broken or not is_newcomers_own(self._register, node):
            return self._worker_failure(text, now)
        self._register.tell(EventKind.WORKERS_FAILED, text, now)
        if node.killed_early or any(failure.exit_code > 0 for failure in failures):
            self._blamed = node.id
            self._verdict_at = now + self._elasticity.verdict_window
            return None
        node.killed_early = True
        return self.spoilt(text)

    def uneven(self, now: float) -> None:
        """The set of workers in the process group changed: some in it and some not may not last."""
        some_late = self._round.reached and self._round.late and self._elasticity.start_timeout
        if not some_late:
            self._late_at = None
        elif self._late_at is None:
            self._late_at = now + self._elasticity.start_timeout

    def check_late_start(self, now: float) -> RoundChanged | None:
        """Treat workers that never reached the process group like crashed ones."""
        if not is_over(self._late_at, now):
            return None
        self._late_at = None
        why = f"did not reach the process group within {self._elasticity.start_timeout:g} s"
        late = [self._roster[node] for node in sorted(self._round.late) if node in self._roster]
        for node in late:
            first = self._round.first_rank(node.id)
            for rank in node.missing:
                failure = WorkerFailure(
                    local_rank=rank - first, rank=rank, pid=0, exit_code=0, message=why
                )
                self._note(node, failure, now)
        ranks = ", ".join(str(rank) for node in late for rank in node.missing)
        return self._worker_failure(f"rank {ranks} {why}, while others did", now)

    def check_verdict(self, now: float) -> JobFails | NodeDismissed | None:
        """Give the verdict once its time is over: no member was lost in the meantime."""
        if not is_over(self._verdict_at, now):
            return None
        self._verdict_at = None
        blamed, self._blamed = self._blamed, None
        if blamed is None:
            used_up = restarts_used_up(self._elasticity.max_restarts)
            return JobFails(f"a worker failed and {used_up}")
        if blamed not in self._roster:
            return None
        why = "its workers failed before they ever reached the process group"
        return NodeDismissed(self._roster[blamed], why)

    def _worker_failure(self, reason: str, now: float) -> RoundChanged | None:
        if self.broken:
            return None
        if self._blamed is not None:
            self._blamed = self._verdict_at = None
        self._register.tell(EventKind.WORKERS_FAILED, reason, now)
        self._by_workers = True
        if self._roster.limbo.intersection(self._round.members):
            self.broken = reason
            self._hasten(now)
        elif self._job.restarts < self._elasticity.max_restarts:
            self._register.set_job(restarts=self._job.restarts + 1)
            self._charged = True
            self.broken = reason
        elif self._verdict_at is None:
            self._verdict_at = now + self._elasticity.verdict_window
        return RoundChanged()

    def _note(self, node: Node, failure: WorkerFailure, now: float) -> None:
        self._failures.note(node.record, failure, reported_at=self._register.journal.wall(now))


def _identity(node: Node) -> str:
    """The same for a node that rejoins; another for its replacement, even under the same name."""
    info = node.record.info
    return f"{info.name}#{info.generation}"
