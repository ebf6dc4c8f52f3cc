"""Jobs and orders for the tests of their objects on a cluster."""

from __future__ import annotations

from typing import Any

from resile.control.actions import Priority, StartNode
from resile.job.manifest.parse import job_from_data
from resile.job.node import Node
from resile.job.spec.job import ElasticJob
from resile.job.spec.role import NodeResources

UID = "1234"


def job(role: dict[str, Any] | None = None, **spec: Any) -> ElasticJob:
    """A job of one role, ``worker``."""
    worker = {"replicas": {"min": 1, "max": 4}, "script": "train.py", "image": "train:1"}
    return job_from_data(
        {
            "apiVersion": "resile.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "digits", "namespace": "ml"},
            "spec": {"roles": {"worker": {**worker, **(role or {})}}, **spec},
        }
    )


def order(**changes: Any) -> StartNode:
    """A controller's order to start a node."""
    usual: dict[str, Any] = {
        "node": Node(role="worker", rank=1, id=7, name="digits-worker-7"),
        "command": ("resile", "run", "train.py"),
        "env": {"A": "1"},
        "working_dir": None,
        "resources": NodeResources(),
        "priority": Priority(),
        "grace_seconds": 30.0,
        "reason": "role worker should have 4 nodes",
    }
    return StartNode(**{**usual, **changes})
