"""How objects on a cluster are told to belong to a job: labels, names, owners.

Selections go by labels alone, never by names, because people give names too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resile.job.limits import MOST_NODES
from resile.job.node import Node
from resile.job.spec import API_VERSION, KIND, ElasticJob

__all__ = [
    "COMPONENT",
    "DEFAULT_CONTAINER",
    "ID",
    "JOB",
    "MASTER",
    "NODE",
    "RANK",
    "ROLE",
    "job_of",
    "main_container_of",
    "master_labels",
    "node_labels",
    "node_of",
    "owner",
    "rank_labels",
    "role_selector",
]

JOB = "resile.dev/job"
ROLE = "resile.dev/role"
RANK = "resile.dev/rank"
ID = "resile.dev/node-id"
COMPONENT = "resile.dev/component"
MASTER, NODE = "master", "node"

LARGEST_ID = 2**53
"""Of a node: what a pod's labels say may have been written by anybody who can make pods."""

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""An annotation: the container that kubectl's logs and exec mean, and that the pod is judged by."""


def node_labels(job: str, node: Node) -> dict[str, str]:
    """What a node's pod says of itself; :func:`node_of` reads it again."""
    return {**rank_labels(job, node.role, node.rank), ID: str(node.id)}


def rank_labels(job: str, role: str, rank: int) -> dict[str, str]:
    """What the pods of all nodes that ever have a rank say of themselves."""
    return {JOB: job, COMPONENT: NODE, ROLE: role, RANK: str(rank)}


def master_labels(job: str) -> dict[str, str]:
    """What a master's pod says of itself."""
    return {JOB: job, COMPONENT: MASTER}


def role_selector(job: str, role: str) -> str:
    """All pods of a role, for an autoscaler that looks at their load."""
    return f"{JOB}={job},{ROLE}={role}"


def job_of(pod: dict[str, Any]) -> tuple[str, str] | None:
    """Namespace and name of the job that a pod belongs to, if to one of ours."""
    metadata = pod["metadata"]
    name = metadata.get("labels", {}).get(JOB)
    return None if name is None else (metadata.get("namespace", ""), name)


def node_of(pod: dict[str, Any]) -> Node | None:
    """Which node a pod is; None for a master's, or one that only looks like ours."""
    metadata = pod["metadata"]
    labels = metadata.get("labels", {})
    if labels.get(COMPONENT) != NODE:
        return None
    try:
        rank, number = int(labels[RANK]), int(labels[ID])
        if not (0 <= rank < MOST_NODES and 0 <= number <= LARGEST_ID):
            return None
        return Node(role=labels[ROLE], rank=rank, id=number, name=metadata["name"])
    except (KeyError, ValueError):
        return None


def main_container_of(pod: Mapping[str, Any]) -> str:
    """The container that a node or a master runs in: not always the first, because a cluster's
    admission may put others before it."""
    named = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER)
    name: str = named or pod["spec"]["containers"][0]["name"]
    return name


def owner(job: ElasticJob, uid: str) -> dict[str, Any]:
    """With it, whatever we make goes when the job is deleted, without anyone's doing."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job.metadata.name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
