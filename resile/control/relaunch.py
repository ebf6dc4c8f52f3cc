"""Decide about an ended node: whether it is replaced, at what cost, and why.

The first of these that applies decides:

1. The platform took the node away (preempted, deleted, evicted, lost, drained): replaced, free.
2. It ran out of memory: replaced with more memory, free, because the ceiling bounds it; at the
   ceiling the rank is given up. Where memory cannot grow it is a failure like any other.
3. A rule in the role's ``exitCodes``.
4. The role's restart policy, and our own exit codes.

A relaunch that is not free spends one of the rank's budget, the role's and the job's. Repeated
failures soon after the start are delayed with a back-off; the first relaunch is always immediate.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from resile.control.start_requests import grown_memory, memory_limit
from resile.job.exits import DISRUPTIONS, ExitCause, NodeExit, classify, describe
from resile.job.spec.job import BackoffSpec, JobSpec
from resile.job.spec.role import UNLIMITED, ExitAction, RestartPolicy, RoleSpec
from resile.job.status import NodeStatus

__all__ = ["EndedNode", "RelaunchDecision", "RankOutcome", "SpentBudget", "decide_relaunch"]

RETRYABLE_CODES = frozenset({130, 137, 138, 143})
"""Codes that policy ExitCode relaunches: interrupted, killed, user-defined (SIGUSR1), ended."""

_OWN_CODES = frozenset(
    {
        ExitCause.STRAGGLER,
        ExitCause.BROKEN_NODE,
        ExitCause.NO_PROGRESS,
        ExitCause.FENCED,
        ExitCause.NEVER_STARTED,
        ExitCause.UNKNOWN,
    }
)
"""Causes that say nothing about the program, so that policy ExitCode relaunches them."""

_AT_ONCE = DISRUPTIONS - {ExitCause.EVICTED}
"""Taken away from outside: no back-off is needed. An eviction tends to recur."""


class RankOutcome(Enum):
    """The outcome for the rank of an ended node."""

    DONE = "done"
    RELAUNCH = "relaunch"
    GIVE_UP = "give up"
    FAIL_JOB = "fail the job"


@dataclass(frozen=True, kw_only=True)
class EndedNode:
    """A node that ended: which rank it filled, how it ended and how long it had run."""

    role: str
    rank: NodeStatus
    end: NodeExit
    ran_for: timedelta

    @property
    def cause(self) -> ExitCause:
        """The cause of its end."""
        return classify(self.end)


@dataclass(frozen=True, kw_only=True)
class SpentBudget:
    """Relaunches that have been counted against budgets so far."""

    by_role: int
    by_job: int


@dataclass(frozen=True, kw_only=True)
class RelaunchDecision:
    """The decision on one ended node."""

    outcome: RankOutcome
    sentence: str
    spends: bool = False
    delay: timedelta = timedelta()
    quick_crashes: int = 0
    memory: str | None = None
    """The rank's memory limit from now on, if it grew."""


def decide_relaunch(spec: JobSpec, ended: EndedNode, *, spent: SpentBudget) -> RelaunchDecision:
    """Decide about the rank of an ended node."""
    role = spec.roles[ended.role]
    if ended.cause is ExitCause.OUT_OF_MEMORY and role.restart_policy is not RestartPolicy.NEVER:
        grown = _with_more_memory(role, ended)
        if grown is not None:
            return grown
    action, why = _action(spec, role, ended)
    story = f"{_who(ended)} {_how(ended.end)}"
    if action is ExitAction.SUCCEED:
        return RelaunchDecision(outcome=RankOutcome.DONE, sentence=f"{story}{why}")
    if action is ExitAction.FAIL:
        return RelaunchDecision(outcome=RankOutcome.GIVE_UP, sentence=f"{story}; given up{why}")
    if action is ExitAction.RELAUNCH:
        refusal = _out_of_budget(spec, role, ended, spent)
        if refusal is not None:
            return RelaunchDecision(outcome=refusal[0], sentence=f"{story}; {refusal[1]}")
    return _relaunch(
        spec.backoff, ended, story=story, spends=action is ExitAction.RELAUNCH, why=why
    )


def _with_more_memory(role: RoleSpec, ended: EndedNode) -> RelaunchDecision | None:
    limit = memory_limit(role, learnt=ended.rank.memory)
    if limit is None or role.memory_growth.factor == 1:
        return None
    story = f"{_who(ended)} ran out of {limit} of memory"
    grown = grown_memory(role, learnt=ended.rank.memory)
    if grown is None:
        why = f"that is memoryGrowth.ceiling ({role.memory_growth.ceiling})"
        return RelaunchDecision(outcome=RankOutcome.GIVE_UP, sentence=f"{story}; given up: {why}")
    sentence = f"{story}; relaunched with {grown}, no budget spent"
    return RelaunchDecision(outcome=RankOutcome.RELAUNCH, sentence=sentence, memory=grown)


def _action(spec: JobSpec, role: RoleSpec, ended: EndedNode) -> tuple[ExitAction, str]:
    """The action, and a clause that names the rule."""
    cause, code = ended.cause, ended.end.shell_code
    if cause in DISRUPTIONS and cause is not ExitCause.DRAINED:
        return ExitAction.RELAUNCH_FREE, ""
    if code is not None and cause is not ExitCause.OUT_OF_MEMORY:
        for rule in role.exit_codes:
            if rule.matches(code):
                return rule.action, f" (exitCodes says {rule.action.value} for code {code})"
    if cause is ExitCause.DRAINED:
        return ExitAction.RELAUNCH_FREE, ""
    if cause is ExitCause.COMPLETED:
        return _after_success(spec, role, ended)
    return _by_policy(role, cause, code)


def _after_success(spec: JobSpec, role: RoleSpec, ended: EndedNode) -> tuple[ExitAction, str]:
    always = role.restart_policy is RestartPolicy.ALWAYS
    if always and ended.role not in spec.success_roles():
        return ExitAction.RELAUNCH, " (restartPolicy is Always)"
    return ExitAction.SUCCEED, ""


def _by_policy(role: RoleSpec, cause: ExitCause, code: int | None) -> tuple[ExitAction, str]:
    policy = role.restart_policy
    if policy is RestartPolicy.NEVER:
        return ExitAction.FAIL, ": restartPolicy is Never"
    if policy is RestartPolicy.ALWAYS:
        return ExitAction.RELAUNCH, ""
    if cause is ExitCause.CANNOT_RUN:
        return ExitAction.FAIL, ": a retry cannot help"
    retryable = code in RETRYABLE_CODES or cause in _OWN_CODES or cause is ExitCause.OUT_OF_MEMORY
    if policy is RestartPolicy.EXIT_CODE and not retryable:
        return ExitAction.FAIL, f": code {code} is permanent under restartPolicy ExitCode"
    return ExitAction.RELAUNCH, ""


def _out_of_budget(
    spec: JobSpec, role: RoleSpec, ended: EndedNode, spent: SpentBudget
) -> tuple[RankOutcome, str] | None:
    budget = role.restart_budget
    if spec.backoff_limit is not None and spent.by_job >= spec.backoff_limit:
        return RankOutcome.FAIL_JOB, f"the job's backoffLimit of {spec.backoff_limit} is spent"
    if budget.per_node != UNLIMITED and ended.rank.spent >= budget.per_node:
        return RankOutcome.GIVE_UP, f"given up: its restartBudget of {budget.per_node} is spent"
    if budget.per_role != UNLIMITED and spent.by_role >= budget.per_role:
        limit = f"the restartBudget of {budget.per_role} of role {ended.role}"
        return RankOutcome.GIVE_UP, f"given up: {limit} is spent"
    return None


def _relaunch(
    backoff: BackoffSpec, ended: EndedNode, *, story: str, spends: bool, why: str
) -> RelaunchDecision:
    crashes, delay = ended.rank.quick_crashes, timedelta()
    if ended.cause not in _AT_ONCE:
        quick = ended.ran_for < timedelta(seconds=backoff.reset_seconds)
        crashes = crashes + 1 if quick else 0
        delay = _pause(backoff, crashes)
    when = f"relaunched in {delay.total_seconds():g} s" if delay else "relaunched"
    cost = ", budget spent" if spends else ", no budget spent"
    return RelaunchDecision(
        outcome=RankOutcome.RELAUNCH,
        sentence=f"{story}; {when}{cost}{why}",
        spends=spends,
        delay=delay,
        quick_crashes=crashes,
    )


def _pause(backoff: BackoffSpec, crashes: int) -> timedelta:
    if crashes <= 1:
        return timedelta()
    doublings = min(crashes - 2, 60)  # more would exceed every ceiling
    return timedelta(seconds=min(backoff.base_seconds * 2.0**doublings, backoff.ceiling_seconds))


def _who(ended: EndedNode) -> str:
    return f"{ended.rank.name} (rank {ended.rank.rank})"


def _how(end: NodeExit) -> str:
    return f"{describe(end)} ({end.message})" if end.message else describe(end)
