"""Tables and rates as a terminal shows them."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from resile.cli.output.format import nothing_left, progress_facts
from resile.cli.output.live_view import LiveView
from resile.cli.output.tables import event_line, nodes_table
from resile.job.status import JobStatus
from resile.job.throughput import Throughput
from resile.job.training import NodeView, TrainingView
from resile.job.view import JobView
from resile.wire.views import EventView


def drawn(view: JobView, *, width: int, most: int | None = None) -> str:
    console = Console(width=width, file=StringIO(), markup=False)
    console.print(nodes_table(view, width=width, most=most))
    output = console.file
    assert isinstance(output, StringIO)
    return output.getvalue()


def node(number: int, **more: object) -> NodeView:
    described = {
        "name": f"train-worker-{number}",
        "role": "worker",
        "rank": number,
        "phase": "Running",
        "id": number,
        "state": "running",
        "round": 3,
        "step": 1200,
        "memory_limit": "512Mi",
        "cpu": "1.0",
        "memory": "100Mi",
    }
    return NodeView(**{**described, **more})  # type: ignore[arg-type]


def test_a_wide_table_has_everything() -> None:
    text = drawn(JobView(name="train", phase="Running", nodes=(node(0),)), width=160)
    for part in ("train-worker-0", "3 running", "1200", "100Mi/512Mi", "1.0"):
        assert part in text


def test_a_usual_terminal_shows_a_pending_node_with_its_reason_and_nothing_is_cut() -> None:
    waiting = node(1, phase="Pending", state="", step=None, message="no room")
    view = JobView(name="train", phase="Running", nodes=(node(0), waiting))
    text = drawn(view, width=80)
    assert "…" not in text
    assert "no room" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_node_that_lost_its_master_is_away() -> None:
    view = JobView(name="t", phase="Running", nodes=(node(0, away=True),))
    assert "3 running (away)" in drawn(view, width=160)


def test_more_nodes_than_fit_are_counted() -> None:
    view = JobView(name="t", phase="Running", nodes=tuple(map(node, range(9))))
    text = drawn(view, width=120, most=4)
    assert "train-worker-3" not in text
    assert "… and 6 more" in text
    assert len(text.splitlines()) == 1 + 4


def test_a_node_in_trouble_is_shown_before_those_that_are_well() -> None:
    nodes = (*map(node, range(8)), node(8, phase="Pending", state="", message="no room"))
    text = drawn(JobView(name="t", phase="Running", nodes=nodes), width=120, most=3)
    assert "train-worker-8" in text
    assert "no room" in text


@pytest.mark.parametrize("width", [40, 60, 70, 80, 100, 120, 200])
def test_a_table_is_as_wide_as_the_terminal_at_most_and_no_name_is_cut(width: int) -> None:
    waiting = node(1, phase="Pending", state="", step=None, message="no room for it " * 9)
    running = node(0, worker_pids=(31337, 31338), loss=0.25)
    view = JobView(name="train", phase="Running", nodes=(running, waiting))
    lines = drawn(view, width=width, most=5).splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= width
    assert all(name in line for name, line in zip(("NODE", "r-0", "r-1"), lines, strict=True))


def test_pids_and_losses_are_shown_where_they_are_known() -> None:
    known = node(0, worker_pids=(31337, 31338), loss=0.123456)
    text = drawn(JobView(name="t", phase="Running", nodes=(known,)), width=160)
    assert "31337 31338" in text
    assert "0.1235" in text
    assert "PIDS" not in drawn(JobView(name="t", phase="Running", nodes=(node(0),)), width=160)


# --- how far it is ------------------------------------------------------------------------------


def training(**more: object) -> JobView:
    described: dict[str, object] = {
        "phase": "running",
        "round": 3,
        "reason": "",
        "min_nodes": 1,
        "max_nodes": 2,
        "world_size": 4,
        "restarts": 0,
        "max_restarts": 3,
        "step": 30,
    }
    seen = TrainingView(**{**described, **more})  # type: ignore[arg-type]
    return JobView(name="t", phase="Running", training=seen, nodes=(node(0), node(1), node(2)))


@pytest.mark.parametrize(
    ("known", "facts"),
    [
        ({"step": None}, []),
        ({}, ["step 30"]),
        ({"total_steps": 120}, ["step 30 of 120 (25%)"]),
        (
            {"total_steps": 120, "throughput": "0.5 steps/s", "loss": 0.123456},
            ["step 30 of 120 (25%)", "0.5 steps/s", "3m0s left", "loss 0.1235"],
        ),
        ({"total_steps": 20, "throughput": "2 steps/s"}, ["step 30 of 20 (100%)", "2 steps/s"]),
        ({"step": None, "resumed": 9, "source": "storage"}, ["resumed at 9 from storage"]),
    ],
)
def test_how_far_a_training_is(known: dict[str, object], facts: list[str]) -> None:
    assert progress_facts(training(**known)) == facts


def test_a_cluster_job_whose_master_is_away_is_as_far_as_its_status_says() -> None:
    status = JobStatus(step=5, total_steps=10, loss=1.5, throughput="1 steps/s")
    view = JobView(name="t", phase="Running", status=status)
    assert progress_facts(view) == ["step 5 of 10 (50%)", "1 steps/s", "5s left", "loss 1.5"]


def test_a_training_that_was_complete_before_says_so() -> None:
    assert nothing_left(training(step=None)) == ""
    assert nothing_left(training(step=30, resumed=10, source="memory")) == ""
    told = nothing_left(training(step=None, resumed=60, source="storage"))
    assert told.startswith("It resumed at step 60 from storage, and nothing was left to do")


@pytest.mark.parametrize(("width", "height"), [(70, 14), (60, 10), (80, 24), (50, 12), (160, 50)])
def test_a_frame_of_the_live_view_fits_the_terminal(width: int, height: int) -> None:
    console = Console(width=width, height=height, file=StringIO(), markup=False)
    view = LiveView("train", console=console)
    words = "round 4: forming with 2 nodes: train-worker-1 was lost, and so on and on and on and on"
    view.tell([EventView(seq=n, time=0.0, kind="RoundForming", text=words) for n in range(20)])
    console.print(view.draw(training(total_steps=3000, throughput="12.5 steps/s", loss=0.5)))
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for part in ("job train", "step 30 of 3000 (1%)", "loss 0.5", "train-worker-0", "RoundForming"):
        assert part in text


def test_brackets_in_an_event_are_not_taken_for_markup() -> None:
    event = EventView(seq=1, time=0.0, kind="NodeLost", text="[red]x[/red] [rank0]")
    assert event_line(event, when="now").plain.endswith(" [red]x[/red] [rank0]")


def test_the_rate_is_taken_over_the_last_seconds() -> None:
    rate = Throughput(window=5.0)
    assert rate.at(0, 0.0) is None
    for second in range(1, 20):
        found = rate.at(second * 10, float(second))
    assert found == pytest.approx(10.0)


def test_steps_that_go_back_start_the_rate_anew() -> None:
    rate = Throughput(window=5.0)
    for second in range(10):
        rate.at(1000 + second, float(second))
    assert rate.at(500, 10.0) is None
    assert rate.at(504, 12.0) == pytest.approx(2.0)


def test_there_is_no_rate_without_steps() -> None:
    assert Throughput().at(None, 1.0) is None


def test_hosts_are_shown_when_there_are_several() -> None:
    here = tuple(node(number, host="vm") for number in range(2))
    assert "HOST" not in drawn(JobView(name="t", phase="Running", nodes=here), width=160)
    apart = (node(0, host="node-a"), node(1, host="node-b"))
    text = drawn(JobView(name="t", phase="Running", nodes=apart), width=160)
    assert "HOST" in text
    assert "node-b" in text
