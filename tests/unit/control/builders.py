"""Helpers to write jobs, reports and times in tests."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from resile.control.observed import ObservedNode
from resile.job.exits import NodeExit
from resile.job.manifest.parse import job_from_data
from resile.job.node import Node, NodePhase
from resile.job.spec.job import ElasticJob

START = datetime(2030, 1, 1, tzinfo=timezone.utc)


def at(seconds: float) -> datetime:
    """This many seconds after the start of all tests."""
    return START + timedelta(seconds=seconds)


def job(roles: dict[str, dict[str, Any]] | None = None, **spec: Any) -> ElasticJob:
    """A job called ``train``; every role runs `train` unless it says otherwise."""
    described = {
        name: role
        if {"command", "script", "module"} & set(role)
        else {"command": ["train"], **role}
        for name, role in (roles or {"worker": {"replicas": 2}}).items()
    }
    return job_from_data(
        {
            "apiVersion": "resile.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "train"},
            "spec": {"roles": described, **spec},
        }
    )


def seen(node: Node, phase: NodePhase = NodePhase.RUNNING, **more: Any) -> ObservedNode:
    """A node as a platform reports it."""
    return ObservedNode(node, phase, **more)


def failed(node: Node, code: int | None = 1, **exit_fields: Any) -> ObservedNode:
    """A node that failed."""
    return ObservedNode(node, NodePhase.FAILED, exit=NodeExit(code=code, **exit_fields))
