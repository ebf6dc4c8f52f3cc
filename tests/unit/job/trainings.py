"""Trainings as a master sees them, and the ranks of a controller."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from resile.job.node import NodePhase
from resile.job.status import NodeStatus
from resile.job.training import Failure, NodeView, TrainingView

FAILURE = Failure(
    node="train-worker-1",
    node_id=4,
    host="pod",
    rank=3,
    local_rank=1,
    pid=77,
    exit_code=-9,
    at=datetime.fromtimestamp(1e9, timezone.utc),
    message="boom",
    log="/logs/3",
)


def training(*nodes: NodeView, **more: Any) -> TrainingView:
    """A training in round 4."""
    described: dict[str, Any] = {
        "phase": "running",
        "round": 4,
        "reason": "first round",
        "min_nodes": 1,
        "max_nodes": 2,
        "world_size": 2,
        "max_restarts": 3,
        "step": 7,
        "nodes": {node.name: node for node in nodes},
    }
    return TrainingView(**{**described, **more})


def member(name: str, **more: Any) -> NodeView:
    """A node that has joined, as its master sees it."""
    described: dict[str, Any] = {
        "member": 9,
        "name": name,
        "host": "h",
        "pid": 123,
        "role": "worker",
        "rank": 0,
        "state": "running",
        "workers": 2,
        "step": 7,
        "loss": 0.5,
    }
    return NodeView(**{**described, **more})


def rank(number: int, phase: NodePhase = NodePhase.RUNNING, **more: Any) -> NodeStatus:
    """A rank in the controller's status."""
    name = f"train-worker-{number}"
    return NodeStatus(role="worker", rank=number, phase=phase, id=number, name=name, **more)
