"""The training in a job's status, and when it is updated."""

from __future__ import annotations

from typing import Any

from resile.job.spec.job import ElasticJob
from resile.job.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    JobPhase,
    JobStatus,
)
from resile.job.training import TrainingView, cpu_text, memory_text
from resile.job.view import MAIN
from resile.operator.job import invalid_spec_status
from resile.operator.training_status import step_of, with_members, with_training
from tests.unit.control.builders import START, at, job
from tests.unit.job.trainings import member, training

MEBI = 1024**2


def looked(status: JobStatus, generation: int, **more: Any) -> JobStatus:
    described: dict[str, Any] = {"seen": None, **more}
    asked: ElasticJob = described.pop("job", job())
    return with_training(status, asked, generation=generation, **described)


def condition(kind: ConditionType) -> Condition:
    return Condition(
        type=kind,
        status=ConditionStatus.TRUE,
        reason="R",
        message="m",
        last_transition_time=START,
    )


def using(cpu: float, memory: int, *, step: int = 1) -> dict[str, TrainingView]:
    node = member(
        "train-worker-0", cpu=cpu_text(cpu), memory=memory_text(memory), step=step, loss=None
    )
    return {MAIN: training(node)}


# --- generations --------------------------------------------------------------------------------


def test_conditions_say_by_which_generation_of_the_spec_they_were_judged() -> None:
    told = (condition(ConditionType.CREATED), condition(ConditionType.RUNNING))
    first = looked(JobStatus(conditions=told), 1)
    assert first.observed_generation == 1
    assert [one.observed_generation for one in first.conditions] == [1, 1]
    assert looked(first, 1) == first, "the same again is nothing new"
    changed = looked(first, 2)
    assert [one.observed_generation for one in changed.conditions] == [2, 2]
    times = {one.last_transition_time for one in changed.conditions}
    assert times == {START}, "a changed spec alone is no transition"


def test_a_refused_spec_is_judged_by_its_generation_and_the_rest_by_theirs() -> None:
    told = (condition(ConditionType.CREATED), condition(ConditionType.RUNNING))
    before = looked(JobStatus(conditions=told), 1)
    refused = invalid_spec_status(before, "no image", generation=2, now=at(9))
    assert refused.observed_generation == 2
    generations = {one.type: one.observed_generation for one in refused.conditions}
    assert generations == {ConditionType.CREATED: 2, ConditionType.RUNNING: 1}
    assert invalid_spec_status(refused, "no image", generation=2, now=at(99)) == refused


# --- the training -------------------------------------------------------------------------------


def test_the_round_is_written_at_once_and_what_nodes_do_is_left() -> None:
    before = with_members(JobStatus(), using(1.0, 100 * MEBI))
    after = looked(before, 1, seen={MAIN: training(round=5, phase="forming")})
    assert after.training is not None
    assert before.training is not None
    assert (after.round, after.training.phase) == (5, "forming")
    assert after.training.nodes == before.training.nodes


def test_a_master_that_is_away_takes_nothing_with_it() -> None:
    before = with_members(JobStatus(round=4), using(1.0, 100 * MEBI))
    assert looked(before, 1).training == before.training


def test_a_suspended_job_has_no_round_that_runs() -> None:
    before = with_members(JobStatus(phase=JobPhase.SUSPENDED, round=4), using(1.0, 100 * MEBI))
    after = looked(before, 1, job=job(suspend=True))
    assert after.training is not None
    assert (after.training.phase, after.training.nodes) == ("gathering", {})
    assert looked(after, 1, job=job(suspend=True)) == after


def test_usage_that_is_about_the_same_is_not_worth_a_write() -> None:
    before = with_members(JobStatus(), using(1.0, 1000 * MEBI))
    for same in (using(1.2, 1000 * MEBI), using(0.8, 1040 * MEBI), using(1.0, 960 * MEBI)):
        assert with_members(before, same) == before
    for other in (using(1.4, 1000 * MEBI), using(1.0, 1100 * MEBI), using(0.0, 1000 * MEBI)):
        assert with_members(before, other) != before


def test_an_idle_node_may_breathe() -> None:
    before = with_members(JobStatus(), using(0.0, 40 * MEBI))
    assert with_members(before, using(0.1, 50 * MEBI)) == before
    assert with_members(before, using(0.2, 40 * MEBI)) != before


def test_what_is_written_for_a_step_has_the_usage_of_the_moment() -> None:
    before = with_members(JobStatus(), using(1.0, 1000 * MEBI))
    after = with_members(before, using(1.1, 1001 * MEBI, step=2))
    assert after.training is not None
    member = after.training.nodes["train-worker-0"]
    assert (member.step, member.cpu, member.memory) == (2, "1.1", "1001Mi")


def test_nodes_that_went_are_forgotten_and_new_ones_told() -> None:
    before = with_members(JobStatus(), using(1.0, 1000 * MEBI))
    after = with_members(before, {MAIN: training(member("train-worker-1", state="idle"))})
    assert after.training is not None
    assert list(after.training.nodes) == ["train-worker-1"]


def test_a_step_that_kubernetes_cannot_hold_is_not_written() -> None:
    assert step_of({MAIN: training(step=7)}) == 7
    assert step_of({MAIN: training(step=2**63)}) is None
    assert step_of({}) is None
    assert step_of(None) is None


# --- the other groups ---------------------------------------------------------------------------


def groups(**more: Any) -> dict[str, TrainingView]:
    node = member("train-eval-0", step=more.get("step", 7))
    return {MAIN: training(), "eval": training(node, group="eval", **more)}


def test_the_round_of_another_group_is_written_at_once_and_its_slow_part_is_left() -> None:
    before = with_members(JobStatus(), groups(step=3, throughput="2 steps/s"))
    after = looked(before, 1, seen=groups(step=9, round=5, phase="forming", restarts=1))
    written = after.groups["eval"]
    assert (written.round, written.phase, written.restarts) == (5, "forming", 1)
    assert (written.step, written.throughput) == (3, "2 steps/s")
    assert written.nodes == before.groups["eval"].nodes
    later = with_members(after, groups(step=9, round=5))
    assert (later.groups["eval"].step, later.groups["eval"].nodes["train-eval-0"].step) == (9, 9)


def test_a_group_that_nobody_sees_any_more_is_not_in_the_status() -> None:
    before = with_members(JobStatus(), groups())
    assert looked(before, 1).groups == before.groups, "its master is away"
    assert looked(before, 1, seen={MAIN: training()}).groups == {}


def test_no_group_of_a_suspended_job_has_a_round_that_runs() -> None:
    before = with_members(JobStatus(phase=JobPhase.SUSPENDED), groups())
    after = looked(before, 1, job=job(suspend=True))
    assert (after.groups["eval"].phase, after.groups["eval"].nodes) == ("gathering", {})


def test_the_main_groups_figures_are_in_its_training_too() -> None:
    after = looked(JobStatus(step=3, throughput="1 steps/s"), 1, seen=groups())
    assert after.training is not None
    assert (after.training.round, after.training.world_size) == (after.round, after.world_size)
    assert (after.training.step, after.training.throughput) == (3, "1 steps/s")
