"""The decision about a rank whose node has ended."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from resile.control.relaunch import (
    EndedNode,
    RankOutcome,
    RelaunchDecision,
    SpentBudget,
    decide_relaunch,
)
from resile.job.exits import NodeExit
from resile.job.node import NodePhase
from resile.job.status import NodeStatus
from tests.unit.control.builders import job

DONE, AGAIN, OVER = RankOutcome.DONE, RankOutcome.RELAUNCH, RankOutcome.GIVE_UP


def fate(
    end: NodeExit,
    role: dict[str, Any] | None = None,
    *,
    name: str = "worker",
    ran_for: float = 1000,
    rank: dict[str, Any] | None = None,
    by_role: int = 0,
    by_job: int = 0,
    **spec: Any,
) -> RelaunchDecision:
    described = job({"worker": {}, name: role or {}}, **spec)
    before = NodeStatus(
        role=name, rank=1, phase=NodePhase.RUNNING, id=1, name=f"train-{name}-1", **(rank or {})
    )
    ended = EndedNode(role=name, rank=before, end=end, ran_for=timedelta(seconds=ran_for))
    return decide_relaunch(described.spec, ended, spent=SpentBudget(by_role=by_role, by_job=by_job))


CODE = {code: NodeExit(code=code) for code in (0, 1, 2, 3, 80, 81, 82, 83, 84, 126, 127, 138, 139)}
KILLED, TERMINATED = NodeExit(signal=9), NodeExit(code=143)
PREEMPTED, DELETED = NodeExit(code=143, reason="Preempted"), NodeExit(reason="Deleted")
LOST, EVICTED = NodeExit(reason="NodeLost"), NodeExit(reason="Evicted")
UNBORN, OOM = NodeExit(reason="NeverStarted"), NodeExit(code=137, oom=True)


@pytest.mark.parametrize(
    ("policy", "end", "outcome", "spends"),
    [
        # completed
        ("OnFailure", CODE[0], DONE, False),
        ("Never", CODE[0], DONE, False),
        ("ExitCode", CODE[0], DONE, False),
        ("Always", CODE[0], DONE, False),
        # the program's own failure
        ("OnFailure", CODE[1], AGAIN, True),
        ("OnFailure", CODE[3], AGAIN, True),
        ("OnFailure", KILLED, AGAIN, True),
        ("OnFailure", CODE[139], AGAIN, True),
        ("OnFailure", NodeExit(), AGAIN, True),
        ("Always", CODE[1], AGAIN, True),
        ("Never", CODE[1], OVER, False),
        ("Never", KILLED, OVER, False),
        # the command cannot be run
        ("OnFailure", CODE[126], OVER, False),
        ("OnFailure", CODE[127], OVER, False),
        ("ExitCode", CODE[127], OVER, False),
        ("Always", CODE[127], AGAIN, True),
        # exit codes as in KubeDL
        ("ExitCode", CODE[1], OVER, False),
        ("ExitCode", CODE[2], OVER, False),
        ("ExitCode", CODE[139], OVER, False),
        ("ExitCode", NodeExit(code=130), AGAIN, True),
        ("ExitCode", KILLED, AGAIN, True),
        ("ExitCode", CODE[138], AGAIN, True),
        ("ExitCode", TERMINATED, AGAIN, True),
        ("ExitCode", UNBORN, AGAIN, True),
        ("ExitCode", OOM, AGAIN, True),
        # our own codes
        *((policy, CODE[80], AGAIN, False) for policy in ("OnFailure", "Never", "ExitCode")),
        *(("OnFailure", CODE[code], AGAIN, True) for code in (81, 82, 83, 84)),
        *(("ExitCode", CODE[code], AGAIN, True) for code in (81, 82, 83, 84)),
        *(("Never", CODE[code], OVER, False) for code in (81, 82, 83, 84)),
        # taken away: replaced under every policy, for nothing
        *(
            (policy, end, AGAIN, False)
            for policy in ("OnFailure", "Never", "Always", "ExitCode")
            for end in (PREEMPTED, DELETED, LOST, EVICTED)
        ),
        # could not be started
        ("OnFailure", UNBORN, AGAIN, True),
        ("Never", UNBORN, OVER, False),
        # out of memory with no limit that could grow
        ("OnFailure", OOM, AGAIN, True),
        ("Never", OOM, OVER, False),
    ],
)
def test_the_restart_policy_decides(
    policy: str, end: NodeExit, outcome: RankOutcome, spends: bool
) -> None:
    decided = fate(end, {"restartPolicy": policy})
    assert (decided.outcome, decided.spends) == (outcome, spends)
    assert decided.sentence.startswith("train-worker-1 (rank 1) ")


def test_always_also_replaces_a_completed_node_of_a_role_that_success_does_not_depend_on() -> None:
    decided = fate(CODE[0], {"restartPolicy": "Always"}, name="ps")
    assert (decided.outcome, decided.spends) == (AGAIN, True)


@pytest.mark.parametrize(
    ("action", "outcome", "spends"),
    [
        ("Fail", OVER, False),
        ("Relaunch", AGAIN, True),
        ("RelaunchFree", AGAIN, False),
        ("Succeed", DONE, False),
    ],
)
def test_an_exit_code_rule_goes_before_the_policy(
    action: str, outcome: RankOutcome, spends: bool
) -> None:
    role = {"restartPolicy": "OnFailure", "exitCodes": [{"codes": [3], "action": action}]}
    decided = fate(CODE[3], role)
    assert (decided.outcome, decided.spends) == (outcome, spends)
    assert f"(exitCodes says {action} for code 3)" in decided.sentence
    assert ":" not in decided.sentence


def test_the_first_rule_that_matches_decides() -> None:
    rules = [
        {"range": {"min": 1, "max": 9}, "action": "RelaunchFree"},
        {"codes": [3], "action": "Fail"},
    ]
    assert fate(CODE[3], {"exitCodes": rules}).outcome is AGAIN


def test_a_rule_may_concern_our_own_codes() -> None:
    rules = [{"codes": [81], "action": "RelaunchFree"}]
    assert not fate(CODE[81], {"exitCodes": rules}).spends


@pytest.mark.parametrize("end", [PREEMPTED, OOM])
def test_a_rule_does_not_concern_what_the_program_did_not_do_itself(end: NodeExit) -> None:
    rules = [{"range": {"min": 1, "max": 255}, "action": "Fail"}]
    role = {"exitCodes": rules, "resources": {"limits": {"memory": "4Gi"}}}
    assert fate(end, role).outcome is AGAIN


# --- budgets --------------------------------------------------------------------------------


def test_a_rank_is_given_up_when_its_budget_is_spent() -> None:
    decided = fate(CODE[1], {"restartBudget": {"perNode": 2}}, rank={"spent": 2})
    assert decided.outcome is OVER
    assert "restartBudget of 2 is spent" in decided.sentence


def test_a_rank_is_given_up_when_the_budget_of_its_role_is_spent() -> None:
    decided = fate(CODE[1], {"restartBudget": {"perRole": 5}}, by_role=5)
    assert decided.outcome is OVER
    assert "role worker" in decided.sentence


def test_the_job_fails_when_its_backoff_limit_is_spent() -> None:
    decided = fate(CODE[1], by_job=4, backoffLimit=4)
    assert decided.outcome is RankOutcome.FAIL_JOB
    assert "backoffLimit of 4" in decided.sentence


def test_minus_one_is_no_limit() -> None:
    role = {"restartBudget": {"perNode": -1, "perRole": -1}}
    assert fate(CODE[1], role, rank={"spent": 999}, by_role=999).outcome is AGAIN


def test_what_costs_nothing_is_not_refused_by_an_empty_budget() -> None:
    role = {"restartBudget": {"perNode": 0, "perRole": 0}}
    assert fate(PREEMPTED, role, backoffLimit=0).outcome is AGAIN


# --- memory ---------------------------------------------------------------------------------


def test_memory_doubles_after_each_oom_until_the_ceiling_and_then_the_rank_is_given_up() -> None:
    role = {"resources": {"limits": {"memory": "4Gi"}}, "restartBudget": {"perNode": 0}}
    given, learnt = [], None
    while (decided := fate(OOM, role, rank={"memory": learnt})).outcome is AGAIN:
        assert not decided.spends
        learnt = decided.memory
        given.append(learnt)
    assert given == ["8Gi", "16Gi", "32Gi", "64Gi"]
    assert decided.outcome is OVER
    assert "ceiling (64Gi)" in decided.sentence


def test_growth_can_be_turned_off_and_then_an_oom_is_a_failure_like_any_other() -> None:
    role = {"resources": {"limits": {"memory": "4Gi"}}, "memoryGrowth": {"factor": 1}}
    decided = fate(OOM, role)
    assert (decided.outcome, decided.spends, decided.memory) == (AGAIN, True, None)


# --- back-off -------------------------------------------------------------------------------


def test_repeated_quick_crashes_are_spaced_out_and_the_first_relaunch_is_at_once() -> None:
    delays, crashes = [], 0
    for _ in range(12):
        decided = fate(
            CODE[1],
            {"restartBudget": {"perNode": -1}},
            ran_for=2,
            rank={"quick_crashes": crashes},
        )
        crashes = decided.quick_crashes
        delays.append(decided.delay.total_seconds())
    assert delays == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]


def test_a_node_that_ran_long_enough_starts_the_back_off_anew() -> None:
    decided = fate(CODE[1], ran_for=61, rank={"quick_crashes": 7})
    assert decided.delay == timedelta()
    assert decided.quick_crashes == 0


@pytest.mark.parametrize("end", [PREEMPTED, DELETED, LOST, CODE[80]])
def test_a_node_that_was_taken_away_comes_back_at_once_and_changes_no_back_off(
    end: NodeExit,
) -> None:
    decided = fate(end, ran_for=1, rank={"quick_crashes": 7})
    assert decided.delay == timedelta()
    assert decided.quick_crashes == 7


def test_the_sentence_tells_who_how_when_and_at_what_cost() -> None:
    decided = fate(
        NodeExit(signal=9, message="host rebooted"), ran_for=1, rank={"quick_crashes": 2}
    )
    assert decided.sentence == (
        "train-worker-1 (rank 1) was killed by SIGKILL (code 137) (host rebooted); "
        "relaunched in 2 s, budget spent"
    )
