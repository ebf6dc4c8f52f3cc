"""One picture from a controller's status and a master's view."""

from __future__ import annotations

from typing import Any

from resile.job.node import NodePhase
from resile.job.role import NodeResources
from resile.job.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    JobPhase,
    JobStatus,
    NodeStatus,
)
from resile.wire.messages import Progress
from resile.wire.picture import draw_picture, ended_picture, headline
from resile.wire.views import JobView, NodeView, Usage
from tests.unit.control.builders import START


def view(*nodes: NodeView, **more: Any) -> JobView:
    described: dict[str, Any] = {
        "job": "train",
        "phase": "running",
        "round": 4,
        "reason": "first round",
        "min_nodes": 1,
        "max_nodes": 2,
        "world_size": 2,
        "restarts": 0,
        "max_restarts": 3,
        "step": 7,
        "nodes": list(nodes),
        "report": None,
    }
    return JobView(**{**described, **more})


def seen(name: str, **more: Any) -> NodeView:
    described: dict[str, Any] = {
        "id": 9,
        "name": name,
        "host": "h",
        "pid": 123,
        "role": "worker",
        "rank": 0,
        "state": "running",
        "connected": True,
        "workers": 2,
        "progress": Progress(step=7, loss=0.5),
    }
    return NodeView(**{**described, **more})


def rank(number: int, phase: NodePhase = NodePhase.RUNNING, **more: Any) -> NodeStatus:
    name = f"train-worker-{number}"
    return NodeStatus(role="worker", rank=number, phase=phase, id=number, name=name, **more)


def condition(kind: ConditionType, status: ConditionStatus, message: str) -> Condition:
    return Condition(
        type=kind, status=status, reason="R", message=message, last_transition_time=START
    )


def test_a_node_shows_what_its_controller_and_its_master_know() -> None:
    limits = NodeResources(limits={"memory": "1Gi"})
    status = JobStatus(phase=JobPhase.RUNNING, nodes=(rank(0, restarts=2, resources=limits),))
    picture = draw_picture(
        "train",
        status=status,
        training=view(seen("train-worker-0")),
        usage={"train-worker-0": Usage(cpu=0.5)},
        now=1.0,
    )
    (node,) = picture.nodes
    assert (node.id, node.rank, node.restarts, node.memory_limit) == (0, 0, 2, "1Gi")
    assert (node.state, node.pid, node.round, node.step, node.loss) == ("running", 123, 4, 7, 0.5)
    assert node.usage == Usage(cpu=0.5)


def test_a_spare_is_in_no_round() -> None:
    status = JobStatus(nodes=(rank(0),))
    training = view(seen("train-worker-0", state="spare"))
    (node,) = draw_picture("train", status=status, training=training, now=1.0).nodes
    assert (node.state, node.round) == ("spare", None)


def test_a_node_that_ended_shows_nothing_of_a_master_that_has_not_noticed() -> None:
    status = JobStatus(nodes=(rank(0, NodePhase.FAILED),))
    training = view(seen("train-worker-0"))
    (node,) = draw_picture("train", status=status, training=training, now=1.0).nodes
    assert (node.phase, node.state, node.step) == ("Failed", "", None)


def test_without_a_controller_the_masters_nodes_are_shown() -> None:
    picture = draw_picture("train", status=None, training=view(seen("n0"), seen("n1")), now=1.0)
    assert [node.name for node in picture.nodes] == ["n0", "n1"]
    assert (picture.phase, picture.message) == ("running", "first round")


def test_the_headline_says_why_the_job_is_in_its_phase() -> None:
    running = condition(ConditionType.RUNNING, ConditionStatus.TRUE, "2 of 2 nodes are running")
    assert headline(JobStatus(phase=JobPhase.RUNNING, conditions=(running,))) == running.message
    short = condition(ConditionType.RUNNING, ConditionStatus.FALSE, "too few")
    assert headline(JobStatus(phase=JobPhase.RESTARTING, conditions=(short,))) == "too few"
    failed = condition(ConditionType.FAILED, ConditionStatus.TRUE, "it broke")
    assert headline(JobStatus(phase=JobPhase.FAILED, conditions=(short, failed))) == "it broke"


def test_before_it_ran_the_headline_is_what_the_first_node_waits_for() -> None:
    waiting = rank(0, NodePhase.PENDING, message="no room")
    assert headline(JobStatus(phase=JobPhase.PENDING, nodes=(waiting,))) == (
        "train-worker-0: no room"
    )
    assert headline(JobStatus()) == ""


def test_in_the_last_picture_nothing_runs_any_more() -> None:
    status = JobStatus(nodes=(rank(0), rank(1, NodePhase.SUCCEEDED), rank(2, NodePhase.PENDING)))
    picture = draw_picture("train", status=status, training=view(seen("train-worker-0")), now=1.0)
    last = ended_picture(picture, "Interrupted")
    assert [node.phase for node in last.nodes] == ["Stopped", "Succeeded", "Stopped"]
    assert last.nodes[0].message == "interrupted while it was running"
    assert not last.nodes[0].connected
    assert last.ended == "Interrupted"


def test_a_node_counts_its_replacements_and_its_workers_failures() -> None:
    """Also once it has left: the master remembers."""
    ranks = (rank(0, restarts=1), rank(1, NodePhase.SUCCEEDED), rank(2))
    status = JobStatus(phase=JobPhase.RUNNING, nodes=ranks)
    failures = {"train-worker-0": 3, "train-worker-1": 2}
    training = view(seen("train-worker-0", worker_pids=(7, 8)), failures=failures)
    picture = draw_picture("train", status=status, training=training, now=1.0)
    assert [node.restarts for node in picture.nodes] == [4, 2, 0]
    assert [node.worker_pids for node in picture.nodes] == [(7, 8), (), ()]


def test_a_job_that_was_interrupted_does_not_say_that_nodes_are_running() -> None:
    running = condition(ConditionType.RUNNING, ConditionStatus.TRUE, "2 of 2 nodes are running")
    status = JobStatus(phase=JobPhase.RUNNING, nodes=(rank(0), rank(1)), conditions=(running,))
    training = view(seen("train-worker-0", worker_pids=(7,)))
    picture = draw_picture("train", status=status, training=training, now=1.0)
    assert picture.message == "2 of 2 nodes are running"
    over = ended_picture(picture, "Interrupted")
    assert over.message == "2 of 2 nodes were ended with it"
    assert all(node.worker_pids == () for node in over.nodes)


def test_nodes_of_other_groups_show_their_own_groups_training() -> None:
    status = JobStatus(phase=JobPhase.RUNNING, nodes=(rank(0), rank(1)))
    alone = view(seen("train-worker-1"), round=9, group="worker/1", failures={"train-worker-1": 2})
    picture = draw_picture(
        "train",
        status=status,
        training=view(seen("train-worker-0")),
        groups={"worker/1": alone},
        now=1.0,
    )
    assert [(node.round, node.restarts) for node in picture.nodes] == [(4, 0), (9, 2)]
    assert picture.groups == {"worker/1": alone}
    without = draw_picture("train", status=None, training=None, groups={"g": alone}, now=1.0)
    assert [node.name for node in without.nodes] == ["train-worker-1"]
