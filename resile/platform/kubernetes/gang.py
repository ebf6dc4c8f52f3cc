"""Placing a job's nodes together: by gates that hold pods back from the scheduler, or by a PodGroup
for a scheduler that knows them. Pure.

A job that could train with some of its nodes still needs ``min`` of them; two jobs that each got
half of that would wait for each other for ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from resile.job.cluster import GangPolicy
from resile.job.spec import ElasticJob
from resile.platform.kubernetes.kinds import Kind, KubeObject
from resile.platform.kubernetes.labels import JOB, owner

__all__ = ["GATE", "POD_GROUPS", "GATED", "gates_to_lift", "group_labels", "pod_group"]

GATE = "resile.dev/gang"
"""Holds a pod back until all that the job needs exist."""

GATED: dict[str, Any] = {"name": GATE}

POD_GROUPS = Kind("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups")
_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
_ENDED = ("Succeeded", "Failed")


def gates_to_lift(job: ElasticJob, pods: Iterable[KubeObject]) -> dict[str, list[dict[str, Any]]]:
    """The gates that are left of each pod that may go, by its name; nothing while too few exist."""
    least = sum(role.size.min for role in job.spec.roles.values())
    live = [pod for pod in pods if _lives(pod)]
    if len(live) < least:
        return {}
    gates = {pod["metadata"]["name"]: pod["spec"].get("schedulingGates") or [] for pod in live}
    return {
        name: [one for one in each if one["name"] != GATE]
        for name, each in gates.items()
        if GATED in each
    }


def pod_group(job: ElasticJob, *, uid: str) -> KubeObject | None:
    """The group to have, if the job wants one."""
    if job.spec.gang_scheduling is not GangPolicy.POD_GROUP:
        return None
    least = sum(role.size.min for role in job.spec.roles.values())
    return {
        "metadata": {
            "name": job.metadata.name,
            "namespace": job.metadata.namespace,
            "labels": {JOB: job.metadata.name},
            "ownerReferences": [owner(job, uid)],
        },
        "spec": {"minMember": least},
    }


def group_labels(job: ElasticJob) -> dict[str, str]:
    """How a pod says that it belongs to the group."""
    wanted = job.spec.gang_scheduling is GangPolicy.POD_GROUP
    return {_GROUP_LABEL: job.metadata.name} if wanted else {}


def _lives(pod: KubeObject) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    return (pod.get("status") or {}).get("phase") not in _ENDED
