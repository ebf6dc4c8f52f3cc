"""Gang scheduling of a job's nodes: by scheduling gates, or by a PodGroup for a scheduler that
supports it. Pure.

A job can train with some of its nodes, but needs at least ``min``; two jobs that each got half of
that would wait for each other forever. Gates guarantee less than a PodGroup: when they are lifted
all pods have passed quota and admission, but whether they fit at the same time only a scheduler can
tell.

Only pods that can exist together have to: a role that waits for another (``dependsOn``) has no pods
before the pods of that role are scheduled, so waiting for it would never end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from resile.control.sizing import count_nodes, unmet_dependencies
from resile.job.node import LIVE, Node, NodePhase
from resile.job.spec.cluster import GangPolicy
from resile.job.spec.job import ElasticJob
from resile.job.status import JobStatus
from resile.kube.resources import KubeObject, Resource
from resile.operator.build.labels import JOB, node_of, owner

__all__ = ["GATE", "POD_GROUPS", "GATED", "gates_to_lift", "group_labels", "build_pod_group"]

GATE = "resile.dev/gang"
"""Holds a pod back until all pods that the job needs exist."""

GATED: dict[str, Any] = {"name": GATE}

POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "PodGroup", "podgroups")
_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
_ENDED = ("Succeeded", "Failed")


def gates_to_lift(
    job: ElasticJob, status: JobStatus, pods: Iterable[KubeObject]
) -> dict[str, list[dict[str, Any]]]:
    """Return the remaining gates of each pod that may be scheduled, by name; empty while there are
    too few pods."""
    counts = count_nodes(status.nodes)
    due = {name for name in job.spec.roles if not unmet_dependencies(job.spec, name, counts=counts)}
    live = {node: pod for pod in pods if _lives(pod) and (node := node_of(pod)) is not None}
    if any(_short(job, status, role, made=live) for role in due):
        return {}
    gates = {
        node.name: pod["spec"].get("schedulingGates") or []
        for node, pod in live.items()
        if node.role in due
    }
    return {
        name: [one for one in each if one["name"] != GATE]
        for name, each in gates.items()
        if GATED in each
    }


def _short(job: ElasticJob, status: JobStatus, role: str, *, made: Collection[Node]) -> bool:
    """Return whether a role has fewer nodes than the job needs. Nodes that have succeeded count;
    ranks that were given up may make the role smaller."""
    ranks = [rank for rank in status.nodes if rank.role == role]
    done = sum(rank.phase is NodePhase.SUCCEEDED for rank in ranks)
    there = sum(rank.phase in LIVE and rank.node in made for rank in ranks)
    given_up = sum(rank.phase is NodePhase.FAILED for rank in ranks)
    size = job.spec.roles[role].size
    return done + there < min(size.min, size.max - given_up)


def build_pod_group(job: ElasticJob, *, uid: str) -> KubeObject | None:
    """Return the PodGroup, if the job wants one. It counts the roles that depend on no other; a
    group without members is not allowed."""
    if job.spec.gang_scheduling is not GangPolicy.POD_GROUP:
        return None
    least = sum(role.size.min for role in job.spec.roles.values() if not role.depends_on)
    return {
        "metadata": {
            "name": job.metadata.name,
            "namespace": job.metadata.namespace,
            "labels": {JOB: job.metadata.name},
            "ownerReferences": [owner(job, uid)],
        },
        "spec": {"minMember": max(1, least)},
    }


def group_labels(job: ElasticJob) -> dict[str, str]:
    """Return the labels that make a pod a member of the group."""
    wanted = job.spec.gang_scheduling is GangPolicy.POD_GROUP
    return {_GROUP_LABEL: job.metadata.name} if wanted else {}


def _lives(pod: KubeObject) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    return (pod.get("status") or {}).get("phase") not in _ENDED
