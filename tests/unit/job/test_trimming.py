"""The trainings in a job's status: trimmed to the available space, and read again."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from resile.job.node import NodePhase
from resile.job.status import JobStatus
from resile.job.training import (
    GROUPS_ROOM,
    LAST_WORDS,
    LISTED,
    SHOWN,
    NodeView,
    TrainingView,
    amount_in,
    cpu_text,
    memory_text,
    trimmed,
    trimmed_groups,
)
from resile.job.view import MAIN, combine, trainings_in, with_trainings
from tests.statuses import decode_status, encode_status
from tests.unit.job.trainings import FAILURE, member, rank, training


def written(seen: dict[str, TrainingView], **more: object) -> JobStatus:
    """A status with trainings, through JSON."""
    ranks = (rank(0, host="a"), rank(1, NodePhase.FAILED, host="b"))
    status = JobStatus(**{"nodes": ranks, **more})  # type: ignore[arg-type]
    return decode_status(encode_status(with_trainings(status, seen)))


def test_a_job_looks_the_same_from_its_status_as_from_its_master() -> None:
    asked = training(
        member("train-worker-0", cpu="0.5", memory="64Mi", host="a"),
        member("train-worker-1", state="spare", away=True),
        throughput="12.5 steps/s",
        total_steps=900,
        loss=0.25,
        worker_failures={"train-worker-0": 3},
        restarts=2,
        failure=FAILURE,
    )
    status = written({MAIN: asked})
    read = trainings_in(status)[MAIN]
    for field in msgspec.structs.fields(TrainingView):
        if field.name != "nodes":
            assert getattr(read, field.name) == getattr(asked, field.name), field.name
    shown = combine("train", status=status, trainings={MAIN: read}, now=1.0).nodes
    fresh = combine("train", status=status, trainings={MAIN: asked}, now=1.0).nodes
    assert [replace(node, pid=0, member=None) for node in fresh] == list(shown)
    assert (shown[0].state, shown[0].step, shown[0].memory) == ("running", 7, "64Mi")


def test_every_group_is_written_and_read() -> None:
    main = training(member("train-worker-0"))
    other = training(
        member("train-worker-1", group="eval"),
        group="eval",
        round=9,
        world_size=1,
        step=3,
        throughput="2 steps/s",
        failure=replace(FAILURE, group="eval"),
    )
    status = written({MAIN: main, "eval": other})
    assert (status.round, status.world_size, status.step) == (4, 2, 7)
    read = trainings_in(status)
    assert list(read) == [MAIN, "eval"]
    for field in ("group", "round", "world_size", "step", "throughput", "failure"):
        assert getattr(read["eval"], field) == getattr(other, field), field
    assert read["eval"].nodes["train-worker-1"].group == "eval"


def test_nothing_written_is_nothing_seen() -> None:
    assert trainings_in(JobStatus(round=3, step=4)) == {}


def test_a_status_of_an_earlier_operator_is_read() -> None:
    older = b"""{"phase": "Running", "round": 2, "worldSize": 4, "step": 70, "totalSteps": 90,
      "throughput": "12.5 steps/s", "training": {"phase": "failed", "reason": "because",
      "restarts": 1, "maxRestarts": 3, "workerFailures": {"a": 2}, "counts": {"running": 2},
      "failure": {"node": "a", "nodeId": 1, "host": "h", "rank": 1, "localRank": 1, "pid": 9,
      "exitCode": 1, "at": "2001-09-09T01:46:40Z", "message": "boom"},
      "nodes": {"a": {"state": "running", "step": 71, "cpu": "1.5", "memory": "300Mi"},
                "b": {"state": "running", "away": true, "workers": 2}}}}"""
    read = trainings_in(decode_status(older))[MAIN]
    assert (read.round, read.world_size, read.step, read.total_steps) == (2, 4, 71, 90)
    assert (read.restarts, read.max_restarts, read.worker_failures) == (1, 3, {"a": 2})
    assert read.failure is not None
    assert (read.failure.node, read.failure.message) == ("a", "boom")
    assert read.nodes["a"] == NodeView(
        name="a", state="running", step=71, cpu="1.5", memory="300Mi"
    )
    assert read.nodes["b"].away


def test_amounts_are_rounded_to_what_a_person_reads() -> None:
    assert (cpu_text(1.26), memory_text(381_000_000)) == ("1.3", "363Mi")
    assert (cpu_text(None), memory_text(None), memory_text(1024)) == ("", "", "1Ki")
    assert amount_in("363Mi") == 363 * 1024**2


@pytest.mark.parametrize("text", ["", "much", "1e999999"])
def test_amounts_that_are_no_quantities_are_left_out(text: str) -> None:
    assert amount_in(text) is None


@pytest.mark.parametrize("step", [2**63, -(2**63)])
def test_a_step_that_kubernetes_cannot_hold_is_left_out(step: int) -> None:
    short = trimmed(training(member("n", step=step), step=step, total_steps=step, resumed=step))
    assert short.nodes["n"].step is None
    assert (short.step, short.total_steps, short.resumed) == (None, None, None)


def test_the_newest_step_counts() -> None:
    nodes = {"a": NodeView(state="running", step=9), "b": NodeView(state="idle")}
    status = JobStatus(step=7, training=TrainingView(phase="running", nodes=nodes))
    assert trainings_in(status)[MAIN].step == 9
    status = JobStatus(training=TrainingView(phase="gathering"))
    assert trainings_in(status)[MAIN].step is None


def test_of_long_last_words_the_last_whole_lines_are_kept() -> None:
    words = "\n".join(f"line {n}" for n in range(2000))
    short = trimmed(training(failure=replace(FAILURE, message=words))).failure
    assert short is not None
    kept = short.message.splitlines()
    assert len(short.message) <= LAST_WORDS
    assert kept == words.splitlines()[-len(kept) :]
    short = trimmed(training(failure=replace(FAILURE, message="x" * 9999))).failure
    assert short is not None
    assert short.message == "x" * LAST_WORDS


def test_a_status_keeps_its_step_while_a_master_knows_none() -> None:
    assert with_trainings(JobStatus(step=3), {}) == JobStatus(step=3)
    told = with_trainings(JobStatus(step=3), {MAIN: training(step=None)})
    assert told.step == 3


def test_what_a_master_tells_is_written_within_bounds_whatever_it_is() -> None:
    names = [f"train-worker-{n}-{'x' * 500}" for n in range(20_000)]
    told = training(
        *(member(name, state="y" * 9999) for name in names),
        phase="p" * 99_999,
        reason="r" * 99_999,
        worker_failures=dict.fromkeys(names, 3),
    )
    short = trimmed(told)
    assert len(msgspec.json.encode(short)) < 200_000
    assert short.counts == {"other": 20_000}


def test_of_a_large_job_those_that_are_not_well_are_written_and_the_rest_is_counted() -> None:
    nodes = [member(f"train-worker-{n}") for n in range(400)]
    nodes[7] = member("train-worker-7", away=True)
    nodes[9] = member("train-worker-9", state="failed")
    short = trimmed(training(*nodes))
    assert list(short.nodes) == ["train-worker-7", "train-worker-9"]
    assert short.counts == {"failed": 1, "running": 399, "away": 1}


def test_of_many_groups_those_that_are_not_well_are_written_and_the_rest_is_counted() -> None:
    seen = {f"worker/{n}": training(member(f"n-{n}")) for n in range(10_000)}
    seen["worker/7"] = training(member("n-7", away=True))
    seen["worker/9"] = training(phase="failed", failure=FAILURE)
    status = with_trainings(JobStatus(), seen)
    assert list(status.groups) == ["worker/7", "worker/9"]
    assert status.unlisted_groups == 9_998


def test_two_hundred_independent_workers_that_failed_fit() -> None:
    traceback = replace(FAILURE, message="Traceback\n" * 400)
    seen = {
        f"worker/{n}": training(
            member(f"train-worker-{n}", state="failed"), phase="failed", failure=traceback
        )
        for n in range(LISTED)
    }
    assert len(trimmed_groups(seen)) == LISTED


WORDS = st.sampled_from(["", "running", "word " * 50, "x" * 9999, "line\n" * 3000])


@st.composite
def told_trainings(draw: st.DrawFn) -> TrainingView:
    count = draw(st.sampled_from([0, 1, 3, LISTED, LISTED + 1]))
    name, state = draw(WORDS) or "n", draw(WORDS)
    nodes = [
        member(f"{n}-{name}", state=state, away=draw(st.booleans()) if n < 3 else False)
        for n in range(count)
    ]
    failure = replace(FAILURE, message=draw(WORDS), log=draw(WORDS))
    return training(
        *nodes,
        phase=draw(WORDS),
        reason=draw(WORDS),
        step=draw(st.integers()),
        failure=draw(st.sampled_from([None, failure])),
        worker_failures={node.name: n for n, node in enumerate(nodes)},
    )


@given(told_trainings())
def test_a_trimmed_training_fits_and_trimming_it_again_changes_nothing(told: TrainingView) -> None:
    short = trimmed(told)
    assert len(msgspec.json.encode(short)) < 300_000
    assert trimmed(short) == short
    assert msgspec.json.decode(msgspec.json.encode(short), type=TrainingView) == short


@given(told_trainings(), st.sampled_from([0, 1, 2, 20, LISTED, LISTED + 1, 2000]))
def test_the_groups_of_a_status_fit_however_many_there_are(told: TrainingView, count: int) -> None:
    listed = trimmed_groups({f"group/{n}": told for n in range(count)})
    assert len(msgspec.json.encode(listed)) < GROUPS_ROOM
    assert len(listed) <= max(LISTED, SHOWN)
    assert count <= LISTED or len(listed) <= SHOWN
    assert sum(len(one.nodes) for one in listed.values()) <= LISTED
