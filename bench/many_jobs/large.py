"""A reconciliation of a large job, without an API server: its cost and the size of its output."""

import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import msgspec

from resile.control.observed import Observed
from resile.control.reconcile import reconcile
from resile.job.compact_status import compact, packed
from resile.job.manifest.parse import job_from_data
from resile.job.node import Node, NodePhase
from resile.job.spec.job import ElasticJob
from resile.job.status import JobStatus
from resile.job.training import NodeView, TrainingView
from resile.job.view import MAIN
from resile.operator.build.labels import node_labels
from resile.operator.observe.nodes import NodeStates, observe_nodes
from resile.operator.observe.pod_status import trim_pod
from resile.operator.reconciler import status_of
from resile.operator.training_status import with_members, with_training
from resile.platform.master_reports import directive_for

STARTED = "2026-01-01T00:00:00Z"
READY: dict[str, Any] = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}


@dataclass(frozen=True)
class LookTrial:
    """The result of one reconciliation of a job with one pending node and all others running."""

    seconds: float
    """CPU time from the cached job and pods to a status and a publication."""

    status: int
    """Bytes of the status that is written into the job."""

    publication: int
    """Bytes of the directive that is sent to the job's master."""


def look_trial(*, nodes: int) -> LookTrial:
    """Run one trial."""
    job = _job(nodes)
    first = reconcile(job, JobStatus(), Observed(), datetime.now(timezone.utc))
    pods = [_pod(rank.node, pending=rank.rank == 0) for rank in first.status.nodes if rank.node]
    raw = _raw(job, _look({}, job, pods)[0])
    began = time.process_time()
    status, publication = _look(raw, job, pods)
    seconds = time.process_time() - began
    return LookTrial(seconds, len(msgspec.json.encode(status)), len(publication))


def _look(
    raw: dict[str, Any], job: ElasticJob, pods: list[dict[str, Any]]
) -> tuple[dict[str, Any], bytes]:
    before = status_of(raw) if raw else JobStatus()
    seen = observe_nodes(
        pods,
        status=before,
        machines=NodeStates({("", pod["spec"]["nodeName"]): READY for pod in pods}, read_until="1"),
        refused={},
        reachable=frozenset(),
        preempted={},
    )
    decision = reconcile(job, before, Observed(nodes=seen), datetime.now(timezone.utc))
    trainings = _trainings(decision.status)
    status = with_training(decision.status, job, seen=trainings, generation=1)
    status = with_members(status, trainings)
    status = compact(status)
    written: dict[str, Any] = msgspec.to_builtins(packed(status))
    return written, msgspec.json.encode(directive_for(job, status))


def _job(nodes: int) -> ElasticJob:
    worker = {
        "replicas": {"min": 1, "max": nodes},
        "image": "train:1",
        "script": "train.py",
        "resources": {"limits": {"memory": "64Gi", "nvidia.com/gpu": 8}},
    }
    return job_from_data(
        {
            "apiVersion": "resile.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "large", "namespace": "team"},
            "spec": {"roles": {"worker": worker}},
        }
    )


def _raw(job: ElasticJob, status: dict[str, Any]) -> dict[str, Any]:
    return {**msgspec.to_builtins(job), "status": status}


def _pod(node: Node, *, pending: bool) -> dict[str, Any]:
    state = {"waiting": {"reason": "ContainerCreating"}}
    running = {"running": {"startedAt": STARTED}}
    return trim_pod(
        {
            "metadata": {
                "name": node.name,
                "namespace": "team",
                "uid": node.name,
                "resourceVersion": "1",
                "labels": node_labels("large", node),
            },
            "spec": {"nodeName": _host(node), "containers": [{"name": "node"}]},
            "status": {
                "phase": "Pending" if pending else "Running",
                "containerStatuses": [{"name": "node", "state": state if pending else running}],
            },
        }
    )


def _host(node: Node) -> str:
    return f"ip-10-{node.id // 250}-{node.id % 250}-7.us-west-2.compute.internal"


def _trainings(status: JobStatus) -> dict[str, TrainingView]:
    nodes = {
        rank.name: NodeView(
            name=rank.name,
            role=rank.role,
            rank=rank.rank,
            host=rank.host,
            pid=1,
            member=rank.rank,
            state="running",
            workers=8,
            round=3,
            step=1000,
            loss=0.5,
            cpu="7.5",
            memory="51200Mi",
        )
        for rank in status.nodes
        if rank.phase is NodePhase.RUNNING
    }
    training = TrainingView(
        phase="running",
        round=3,
        min_nodes=1,
        max_nodes=len(status.nodes),
        world_size=8 * len(nodes),
        max_restarts=3,
        step=1000,
        nodes=nodes,
    )
    return {MAIN: training}
