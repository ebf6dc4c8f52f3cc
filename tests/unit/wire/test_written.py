"""The training in a job's status: what is written down is read again as a master's view."""

from __future__ import annotations

import msgspec
import pytest

from resile.job.node import NodePhase
from resile.job.status import JobStatus, MemberStatus, TrainingStatus
from resile.wire.messages import FailureReport, Progress, WorkerFailure
from resile.wire.picture import draw_picture
from resile.wire.views import JobView, Usage
from resile.wire.written import (
    LAST_WORDS,
    training_in,
    usage_of,
    with_written_training,
    written_training,
)
from tests.statuses import decode_status, encode_status
from tests.unit.wire.test_picture import rank, seen, view

FAILURE = WorkerFailure(local_rank=1, rank=3, pid=77, exit_code=-9, message="boom", log="/logs/3")
REPORT = FailureReport(node=4, name="train-worker-1", host="pod", failure=FAILURE, when=1e9)


def status(training: JobView, **more: object) -> JobStatus:
    """As an operator writes it, through JSON."""
    described = {
        "nodes": (rank(0, host="a"), rank(1, NodePhase.FAILED, host="b")),
        "round": training.round,
        "world_size": training.world_size,
        "step": training.step,
        "throughput": training.throughput,
        "training": written_training(training),
    }
    return decode_status(encode_status(JobStatus(**{**described, **more})))  # type: ignore[arg-type]


def test_a_job_is_drawn_the_same_from_its_status_as_from_its_master() -> None:
    used = Usage(cpu=0.5, memory=64 * 1024**2)
    asked = view(
        seen("train-worker-0", usage=used, host="a", progress=Progress(step=7)),
        seen("train-worker-1", state="spare", connected=False),
        throughput="12.5 steps/s",
        total=900,
        loss=0.25,
        failures={"train-worker-0": 3},
        restarts=2,
        report=REPORT,
    )
    written = status(asked, total_steps=asked.total, loss=asked.loss)
    read = training_in("train", written)
    assert read is not None
    for field in ("phase", "round", "reason", "world_size", "restarts", "max_restarts", "step"):
        assert getattr(read, field) == getattr(asked, field), field
    assert (read.throughput, read.report) == (asked.throughput, REPORT)
    assert (read.total, read.loss, read.failures) == (900, 0.25, {"train-worker-0": 3})
    drawn = draw_picture("train", status=written, training=read, now=1.0).nodes
    fresh = draw_picture("train", status=written, training=asked, now=1.0).nodes
    assert [msgspec.structs.replace(node, pid=0) for node in fresh] == list(drawn)
    assert (drawn[0].state, drawn[0].step, drawn[0].usage) == ("running", 7, used)


def test_nothing_written_is_nothing_seen() -> None:
    assert training_in("train", JobStatus(round=3, step=4)) is None


def test_amounts_are_rounded_to_what_a_person_reads() -> None:
    used = Usage(cpu=1.2345, memory=381_000_000)
    member = written_training(view(seen("n", usage=used))).nodes["n"]
    assert (member.cpu, member.memory) == ("1.2", "363Mi")
    nothing = written_training(view(seen("n"))).nodes["n"]
    assert (nothing.cpu, nothing.memory, usage_of(nothing)) == ("", "", None)


def test_amounts_that_nobody_of_ours_wrote_are_left_out() -> None:
    assert usage_of(MemberStatus(state="running", cpu="much", memory="1Gi")) == Usage(memory=2**30)


@pytest.mark.parametrize("step", [2**63, -(2**63)])
def test_a_step_that_kubernetes_cannot_hold_is_left_out(step: int) -> None:
    written = written_training(view(seen("n", progress=Progress(step=step))))
    assert written.nodes["n"].step is None


def test_the_newest_step_counts() -> None:
    training = TrainingStatus(
        phase="running",
        nodes={"a": MemberStatus(state="running", step=9), "b": MemberStatus(state="idle")},
    )
    read = training_in("train", JobStatus(step=7, training=training))
    assert read is not None
    assert read.step == 9
    read = training_in("train", JobStatus(training=TrainingStatus(phase="gathering")))
    assert read is not None
    assert read.step is None


def test_of_long_last_words_the_last_whole_lines_are_kept() -> None:
    words = "\n".join(f"line {n}" for n in range(2000))
    failure = msgspec.structs.replace(FAILURE, message=words)
    report = msgspec.structs.replace(REPORT, failure=failure)
    written = written_training(view(report=report)).failure
    assert written is not None
    kept = written.message.splitlines()
    assert len(written.message) <= LAST_WORDS
    assert kept == words.splitlines()[-len(kept) :]
    one_line = msgspec.structs.replace(
        report, failure=msgspec.structs.replace(FAILURE, message="x" * 9999)
    )
    written = written_training(view(report=one_line)).failure
    assert written is not None
    assert written.message == "x" * LAST_WORDS


def test_a_status_of_one_machine_is_given_what_its_master_saw() -> None:
    asked = view(seen("train-worker-0"), step=7)
    told = with_written_training(JobStatus(), asked)
    assert told.training == written_training(asked)
    assert (told.round, told.world_size) == (asked.round, asked.world_size)
    assert told.step == 7


def test_what_was_written_down_already_is_not_written_over() -> None:
    written = JobStatus(step=3, training=TrainingStatus(phase="running"))
    assert with_written_training(written, view(step=7)) == written
    assert with_written_training(JobStatus(step=3), None) == JobStatus(step=3)


def test_what_a_master_tells_is_written_within_bounds_whatever_it_is() -> None:
    names = [f"train-worker-{n}-{'x' * 500}" for n in range(20_000)]
    told = view(
        *(seen(name, state="y" * 9999) for name in names),
        phase="p" * 99_999,
        reason="r" * 99_999,
        failures=dict.fromkeys(names, 3),
    )
    written = written_training(told)
    assert len(msgspec.json.encode(written)) < 200_000
    assert written.counts == {"other": 20_000}


def test_of_a_large_job_those_that_are_not_well_are_written_and_the_rest_is_counted() -> None:
    nodes = [seen(f"train-worker-{n}", state="running") for n in range(400)]
    nodes[7] = seen("train-worker-7", state="running", connected=False)
    nodes[9] = seen("train-worker-9", state="failed")
    written = written_training(view(*nodes))
    assert list(written.nodes) == ["train-worker-7", "train-worker-9"]
    assert written.counts == {"failed": 1, "running": 399, "away": 1}
