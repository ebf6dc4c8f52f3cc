"""Events from a change of status, besides those of the decisions in it."""

from __future__ import annotations

from typing import Any

from resile.control.node_events import events_between
from resile.control.observed import UNSCHEDULABLE
from resile.job.node import NodePhase
from resile.job.status import JobStatus, NodeStatus
from tests.unit.control.builders import START


def status(phase: NodePhase, id: int = 0, **more: Any) -> JobStatus:
    name = f"train-worker-{id}"
    return JobStatus(
        nodes=(NodeStatus(role="worker", rank=0, phase=phase, id=id, name=name, **more),)
    )


def told(before: JobStatus, after: JobStatus) -> list[tuple[str, str]]:
    return [(note.reason, note.sentence) for note in events_between(before, after, now=START)]


NOWHERE = status(NodePhase.PENDING, reason=UNSCHEDULABLE, message="no cpu free")


def test_a_node_that_finds_no_room_is_told_once() -> None:
    expected = [("NodePending", "train-worker-0 (rank 0) is pending: no cpu free")]
    assert told(JobStatus(), NOWHERE) == expected
    assert told(status(NodePhase.PENDING, reason="Asked"), NOWHERE) == expected
    assert told(NOWHERE, NOWHERE) == []


def test_a_node_that_runs_is_told_once_and_so_is_its_replacement() -> None:
    running = status(NodePhase.RUNNING)
    assert told(NOWHERE, running) == [("NodeStarted", "train-worker-0 (rank 0) is running")]
    assert told(running, running) == []
    replaced = status(NodePhase.RUNNING, id=1)
    assert told(running, replaced) == [("NodeStarted", "train-worker-1 (rank 0) is running")]


def test_a_node_that_is_only_being_started_is_no_news() -> None:
    assert told(JobStatus(), status(NodePhase.PENDING, reason="Asked")) == []
