"""Failures of a round, and what follows from them: a restart, a new round, the end of the job.

A worker's own failure costs one of the job's restarts. One that is the consequence of a lost node
does not, and it is often reported before the loss of that node is known. So where a failure would
end the job, or dismiss a newcomer, the verdict waits for ``verdict_window``, and the loss of a
member in that time overturns it.

Restarts are for failures that a retry may cure. A node that cannot run the script at all is not
cured by one: if it is needed in the first round, the job fails; if it joins a job that trains, only
that node is dismissed.

A lost node costs none of the job's restarts, so a node that is lost, comes back and is lost again
could break rounds forever. Losses of nodes with the same name are counted until the job makes
progress: a step that was not reached before, or a round that lasted. Losses of different nodes do
not add up, since their number is limited.

The judge decides; :class:`~resile.master.rounds.RoundManager` acts on the consequences that it
returns. Both use :attr:`FailureJudge.broken`: the reason why the round cannot continue.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from resile.job.elasticity import Elasticity
from resile.job.events import EventKind
from resile.master.nodes import NodeEntry
from resile.master.records import JobRecord, NodeRecord, RoundPhase
from resile.master.round import Round, is_over
from resile.master.state import GroupState
from resile.system.processes import describe_exit
from resile.wire.messages import FailureReport, LocalState, WorkerFailure

FIRST_ROUND = 1


def why_hopeless(state: GroupState, failures: tuple[WorkerFailure, ...], *, needed: bool) -> str:
    """Return why the job can never train, or nothing: in its first round, before any worker reached
    the process group, a node that is ``needed`` cannot even run the script."""
    first = state.round.number == FIRST_ROUND and not state.round.reached
    found = next((failure for failure in failures if failure.cannot_start), None)
    if found is None or not first or state.job.restarts or not needed:
        return ""
    return (
        f"rank {found.rank} cannot run the script ({found.cannot_start}), "
        "and no restart would change that"
    )


def is_newcomers_own(state: GroupState, node: NodeEntry) -> bool:
    """Whether a failure is a newcomer's own: its workers never reached the process group, and those
    of other nodes had in earlier rounds. Not while a member is disconnected: that may be the
    cause."""
    number, members = state.round.number, state.round.members
    if node.record.reached_in or state.nodes.disconnected.intersection(members):
        return False
    others = [state.nodes[member] for member in members if member in state.nodes]
    return any(0 < other.record.reached_in < number for other in others)


def restarts_used_up(max_restarts: int) -> str:
    """Return why there is no restart left, for people."""
    match max_restarts:
        case 0:
            return "--max-restarts is 0"
        case 1:
            return "the only restart is used up"
        case many:
            return f"all {many} restarts are used up"


class FailureLog:
    """Collects failures since the round started, so that the first can be reported."""

    def __init__(self) -> None:
        self._reports: list[FailureReport] = []
        self._lost: list[FailureReport] = []

    def clear(self) -> None:
        """Forget all: a new round starts."""
        self._reports.clear()
        self._lost.clear()

    def note(self, node: NodeRecord, failure: WorkerFailure, *, reported_at: float) -> None:
        """Add a worker's failure; ``reported_at`` is Unix time."""
        report = FailureReport(
            node=node.id,
            name=node.info.name,
            host=node.info.host,
            failure=failure,
            when=reported_at - failure.age,
        )
        self._reports.append(report)

    def note_lost(self, node: NodeRecord, rank: int, why: str, *, noticed_at: float) -> None:
        """Add the loss of a node and its workers; ``rank`` is the first of them."""
        failure = WorkerFailure(local_rank=0, rank=rank, pid=0, exit_code=0, message=why)
        report = FailureReport(
            node=node.id,
            name=node.info.name,
            host=node.info.host,
            failure=failure,
            when=noticed_at,
        )
        self._lost.append(report)

    @property
    def first_node(self) -> int | None:
        """The node of the first failure."""
        first = self.first()
        return None if first is None else first.node

    def first(self) -> FailureReport | None:
        """The earliest failure: the others most likely follow from it. A lost node goes before
        every worker: its loss is noticed after the failures that it causes on other nodes."""
        reports = self._lost or self._reports
        first = min(reports, key=lambda report: report.when, default=None)
        if first is None:
            return None
        others = len(self._lost) + len(self._reports) - 1
        return msgspec.structs.replace(first, others=others)


def describe_failures(failures: tuple[WorkerFailure, ...], label: str) -> str:
    """Describe the failures of a node's workers in one sentence."""
    ends = ", ".join(f"rank {f.rank} {describe_exit(f.exit_code)}" for f in failures)
    return f"{ends} on {label}"


MAX_LOSSES = 10
"""How often one node may break rounds without progress in between."""

LASTING_ROUND = 60.0
"""Seconds after which a round counts as progress, also if its script reports no steps."""


class NoProgressDetector:
    """Counts the losses of one group's nodes."""

    def __init__(self) -> None:
        self._losses: Counter[str] = Counter()
        self._furthest = -1
        self._started = 0.0

    def round_starts(self, now: float) -> None:
        """Workers train from now on."""
        self._started = now

    def reported(self, step: int) -> None:
        """A node's workers have reached a step."""
        if step > self._furthest:
            self._furthest = step
            self._losses.clear()

    def lost(self, name: str, now: float) -> bool:
        """Count a node that broke a running round; return whether that was once too often."""
        if now - self._started >= LASTING_ROUND:
            self._losses.clear()
        self._losses[name] += 1
        return self._losses[name] >= MAX_LOSSES


@dataclass(frozen=True)
class JobFails:
    """The job ends with a failure."""

    reason: str


@dataclass(frozen=True)
class NodeDismissed:
    """The job continues without a node that cannot run the script."""

    node: NodeEntry
    why: str


@dataclass(frozen=True)
class RoundChanged:
    """The round is broken, or a verdict is pending: the round has to be considered again."""


Consequence: TypeAlias = JobFails | NodeDismissed | RoundChanged


class FailureJudge:
    """Decides what the failures of one group's rounds mean."""

    def __init__(self, state: GroupState) -> None:
        self._state = state
        self._nodes = state.nodes
        self._failures = FailureLog()
        self._no_progress = NoProgressDetector()
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
        return self._state.job

    @property
    def _round(self) -> Round:
        return self._state.round

    @property
    def _elasticity(self) -> Elasticity:
        return self._state.elasticity

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
        self._no_progress.round_starts(now)

    def progressed(self, node: NodeEntry, step: int) -> None:
        """A node's workers report steps: they have reached the process group."""
        self._no_progress.reported(step)
        if self._round.phase is RoundPhase.RUNNING and node.id in self._round:
            self._state.reached_group(node)

    # --- lost nodes -------------------------------------------------------------------------

    def suspect(self, node: NodeEntry, now: float) -> None:
        """A member's connection is gone: failures seen elsewhere point at it."""
        if node.id not in self._round:
            return
        if self._verdict_at is not None:
            self._verdict_at = self._blamed = None
            self.broken = f"{node.label} was lost"
        if self.broken or self._charged:
            self._shorten_grace(now)

    def evicted(self, node: NodeEntry, why: str, now: float) -> JobFails | None:
        """A node is being evicted (before :meth:`lost`): settle which failure was the cause."""
        if self._charged and node.id in self._round:
            # The workers that failed a moment ago failed because this node was dying.
            self._state.set_job(restarts=self._job.restarts - 1)
            self._charged = False
        if node.id not in self._round or node.state is LocalState.SUCCEEDED:
            return None
        noticed_at = self._state.effects.wall(now)
        rank = self._round.first_rank(node.id)
        self._failures.note_lost(
            node.record, rank, f"the node was lost: {why}", noticed_at=noticed_at
        )
        running = self._round.phase is RoundPhase.RUNNING
        if running and self._no_progress.lost(_identity(node), now):
            return JobFails(
                f"{node.label} was lost {MAX_LOSSES} times ({why}), "
                "and training got no further in between"
            )
        return None

    def lost(self, node: NodeEntry, reason: str, now: float) -> None:
        """A node is out of the job: the round continues only if the node had finished."""
        if node.id in self._round and node.state is not LocalState.SUCCEEDED:
            if self._by_workers or not self.broken:
                self.broken, self._by_workers = reason, False
            self._verdict_at = self._blamed = None
            self._shorten_grace(now)

    def break_round(self, reason: str) -> RoundChanged:
        """The round cannot continue, and no worker is the cause: it costs no restart."""
        self.broken = self.broken or reason
        return RoundChanged()

    def _shorten_grace(self, now: float) -> None:
        self._nodes.shorten_grace(
            self._round.members, proof_at=now + self._elasticity.evidence_grace
        )

    # --- failed workers ---------------------------------------------------------------------

    def failed(
        self, node: NodeEntry, failures: tuple[WorkerFailure, ...], now: float, *, needed: bool
    ) -> JobFails | RoundChanged | None:
        """Workers of a member failed. ``needed``: the group cannot train without that member."""
        for failure in failures:
            self._note(node, failure, now)
        text = describe_failures(failures, node.label)
        if self._blamed is not None and self._failures.first_node == self._blamed:
            return None  # a consequence of the newcomer's failure
        if hopeless := why_hopeless(self._state, failures, needed=needed):
            self._state.record_event(EventKind.WORKERS_FAILED, text, now)
            return JobFails(hopeless)
        if self.broken or not is_newcomers_own(self._state, node):
            return self._worker_failure(text, now)
        self._state.record_event(EventKind.WORKERS_FAILED, text, now)
        if node.killed_early or any(failure.exit_code > 0 for failure in failures):
            self._blamed = node.id
            self._verdict_at = now + self._elasticity.verdict_window
            return None
        node.killed_early = True
        return self.break_round(text)

    def check_for_late_workers(self, now: float) -> None:
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
        late = [self._nodes[node] for node in sorted(self._round.late) if node in self._nodes]
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
        if blamed not in self._nodes:
            return None
        why = "its workers failed before they ever reached the process group"
        return NodeDismissed(self._nodes[blamed], why)

    def _worker_failure(self, reason: str, now: float) -> RoundChanged | None:
        if self.broken:
            return None
        if self._blamed is not None:
            self._blamed = self._verdict_at = None
        self._state.record_event(EventKind.WORKERS_FAILED, reason, now)
        self._by_workers = True
        if self._nodes.disconnected.intersection(self._round.members):
            self.broken = reason
            self._shorten_grace(now)
        elif self._job.restarts < self._elasticity.max_restarts:
            self._state.set_job(restarts=self._job.restarts + 1)
            self._charged = True
            self.broken = reason
        elif self._verdict_at is None:
            self._verdict_at = now + self._elasticity.verdict_window
        return RoundChanged()

    def _note(self, node: NodeEntry, failure: WorkerFailure, now: float) -> None:
        self._failures.note(node.record, failure, reported_at=self._state.effects.wall(now))


def _identity(node: NodeEntry) -> str:
    """The same for a node that rejoins; another for its replacement, even under the same name."""
    info = node.record.info
    return f"{info.name}#{info.generation}"
