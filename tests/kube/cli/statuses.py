"""Jobs and their statuses as the operator writes them, and Kubernetes' events."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec

from resile.job.node import NodePhase
from resile.job.spec.job import API_VERSION, KIND
from resile.job.spec.role import NodeResources
from resile.job.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    JobPhase,
    JobStatus,
    NodeStatus,
    RoleStatus,
)
from resile.job.training import TrainingView
from resile.job.view import combine, trainings_in
from resile.kube.client import KubeClient
from resile.kube.resources import ELASTIC_JOBS, EVENTS, KubeObject
from resile.local.jobdir import JobDir
from resile.wire.views import EventView

WORKER = {
    "image": "train:test",
    "script": "train.py",
    "replicas": {"min": 1, "max": 4, "wanted": 2},
    "resources": {"limits": {"memory": "2Gi"}},
}


def manifest(name: str, *, roles: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"roles": roles or {"worker": WORKER}, **spec},
    }


def status(name: str, phase: JobPhase = JobPhase.RUNNING, **more: Any) -> JobStatus:
    """Two workers on two machines, of which the second replaced another."""
    over = phase in (JobPhase.SUCCEEDED, JobPhase.FAILED)
    settled = NodePhase.SUCCEEDED if over else NodePhase.RUNNING
    nodes = tuple(
        NodeStatus(
            role="worker",
            rank=rank,
            id=number,
            name=f"{name}-worker-{number}",
            phase=settled,
            host=f"node-{'ab'[rank]}",
            restarts=number - rank,
            resources=NodeResources(limits={"memory": "2Gi"}),
        )
        for rank, number in ((0, 0), (1, 2))
    )
    said = "2 of 2 nodes are running" if not over else "all nodes of worker have completed"
    kind = ConditionType.SUCCEEDED if over else ConditionType.RUNNING
    counts = {"succeeded": 2} if over else {"active": 2}
    described = {
        "phase": phase,
        "conditions": (
            _condition(ConditionType.CREATED, "JobCreated", "the job was accepted"),
            _condition(kind, f"Job{kind.value}", said),
        ),
        "roles": {"worker": RoleStatus(wanted=2, restarts=1, next_serial=3, **counts)},
        "nodes": nodes,
        "next_id": 3,
        "restarts": 1,
        "ready": "2/2",
        "replicas": 2,
        "step": 70,
        "throughput": "12.5 steps/s",
        "round": 2,
        "world_size": 4,
    }
    return JobStatus(**{**described, **more})


def _condition(kind: ConditionType, reason: str, message: str) -> Condition:
    return Condition(
        type=kind,
        status=ConditionStatus.TRUE,
        reason=reason,
        message=message,
        last_transition_time=datetime.now(timezone.utc) - timedelta(seconds=100),
    )


def left_behind(
    folder: JobDir,
    described: dict[str, Any],
    written: JobStatus,
    training: TrainingView | None = None,
) -> None:
    """A local job, as its `up` wrote it down. ``training``: what its master saw."""
    seen = trainings_in(msgspec.structs.replace(written, training=training or written.training))
    with folder.hold():
        folder.begin()
        view = combine(
            folder.name,
            status=written,
            trainings=seen,
            manifest=described,
            created=time.time(),
            now=time.time(),
        )
        folder.write_view(view)
        folder.append_events([EventView(seq=1, time=time.time(), kind="NodeStarted", text="it is")])


async def create(
    client: KubeClient, described: dict[str, Any], written: JobStatus | None = None
) -> KubeObject:
    """Create a job without an operator, with a status if one is given."""
    raw = await client.create(ELASTIC_JOBS, described)
    return raw if written is None else await write_status(client, raw, written)


async def write_status(client: KubeClient, raw: KubeObject, written: JobStatus) -> KubeObject:
    name, namespace = raw["metadata"]["name"], raw["metadata"]["namespace"]
    told = msgspec.to_builtins(written)
    return await client.patch_status(ELASTIC_JOBS, name, namespace, status=told)


async def tell(
    client: KubeClient,
    about: KubeObject,
    reason: str,
    message: str,
    *,
    ago: float = 0.0,
    count: int = 1,
    component: str = "resile-operator",
) -> KubeObject:
    """Create an event, as the operator, the scheduler or a kubelet does."""
    metadata = about["metadata"]
    when = datetime.now(timezone.utc) - timedelta(seconds=ago)
    moment = when.strftime("%Y-%m-%dT%H:%M:%SZ")
    involved = {
        "kind": about["kind"],
        "name": metadata["name"],
        "namespace": metadata["namespace"],
        "uid": metadata["uid"],
    }
    event = {
        "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
        "involvedObject": involved,
        "reason": reason,
        "message": message,
        "type": "Normal",
        "source": {"component": component},
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": count,
    }
    return await client.create(EVENTS, event)
