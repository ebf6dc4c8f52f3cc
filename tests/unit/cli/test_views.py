"""Tables and rates as a terminal shows them."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from resile.cli.tables import event_line, nodes_table
from resile.wire.throughput import Throughput
from resile.wire.views import EventView, JobPicture, NodePicture, Usage


def drawn(picture: JobPicture, *, width: int, most: int | None = None) -> str:
    console = Console(width=width, file=StringIO(), markup=False)
    console.print(nodes_table(picture, width=width, most=most))
    output = console.file
    assert isinstance(output, StringIO)
    return output.getvalue()


def node(number: int, **more: object) -> NodePicture:
    described = {
        "name": f"train-worker-{number}",
        "role": "worker",
        "rank": number,
        "phase": "Running",
        "id": number,
        "state": "running",
        "connected": True,
        "round": 3,
        "step": 1200,
        "memory_limit": "512Mi",
        "usage": Usage(cpu=1.0, memory=100 * 1024**2),
    }
    return NodePicture(**{**described, **more})  # type: ignore[arg-type]


def test_a_wide_table_has_everything() -> None:
    text = drawn(JobPicture(name="train", phase="Running", nodes=(node(0),)), width=160)
    for part in ("train-worker-0", "3 running", "1200", "100Mi/512Mi", "1.0"):
        assert part in text


def test_a_usual_terminal_shows_a_pending_node_with_its_reason_and_nothing_is_cut() -> None:
    waiting = node(1, phase="Pending", state="", step=None, message="no room")
    picture = JobPicture(name="train", phase="Running", nodes=(node(0), waiting))
    text = drawn(picture, width=80)
    assert "…" not in text
    assert "no room" in text
    assert all(len(line) <= 80 for line in text.splitlines())


def test_a_node_that_lost_its_master_is_away() -> None:
    picture = JobPicture(name="t", phase="Running", nodes=(node(0, connected=False),))
    assert "3 running (away)" in drawn(picture, width=160)


def test_more_nodes_than_fit_are_counted() -> None:
    picture = JobPicture(name="t", phase="Running", nodes=tuple(map(node, range(9))))
    text = drawn(picture, width=120, most=4)
    assert "train-worker-4" not in text
    assert "… and 5 more" in text


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
    assert "HOST" not in drawn(JobPicture(name="t", phase="Running", nodes=here), width=160)
    apart = (node(0, host="node-a"), node(1, host="node-b"))
    text = drawn(JobPicture(name="t", phase="Running", nodes=apart), width=160)
    assert "HOST" in text
    assert "node-b" in text
