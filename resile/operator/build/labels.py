"""The labels and owner references that tie objects to a job, and names that no job owns.

Objects are selected by labels, never by names, because users choose names too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resile.job.limits import MAX_NODES
from resile.job.node import Node
from resile.job.spec.job import API_VERSION, KIND, ElasticJob
from resile.kube.resources import Key, KubeObject, key_of

__all__ = [
    "COMPONENT",
    "DEFAULT_CONTAINER",
    "ID",
    "JOB",
    "MASTER",
    "NODE",
    "OPERATOR_LEASE",
    "RANK",
    "ROLE",
    "job_key",
    "job_of",
    "main_container_of",
    "master_labels",
    "node_labels",
    "node_of",
    "owner",
    "rank_labels",
    "role_selector",
]


OPERATOR_LEASE = "resile-operator"
"""The Lease that the leading operator holds."""


JOB = "resile.dev/job"
ROLE = "resile.dev/role"
RANK = "resile.dev/rank"
ID = "resile.dev/node-id"
COMPONENT = "resile.dev/component"
MASTER, NODE = "master", "node"

LARGEST_ID = 2**53
"""Bound for node ids: a pod's labels may have been written by anyone who can create pods."""

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""An annotation: the default container of kubectl logs and exec, whose state is the node's."""


def node_labels(job: str, node: Node) -> dict[str, str]:
    """Return the labels of a node's pod; :func:`node_of` reads them."""
    return {**rank_labels(job, node.role, node.rank), ID: str(node.id)}


def rank_labels(job: str, role: str, rank: int) -> dict[str, str]:
    """Return the labels that all pods of a rank have in common."""
    return {JOB: job, COMPONENT: NODE, ROLE: role, RANK: str(rank)}


def master_labels(job: str) -> dict[str, str]:
    """Return the labels of a master's pod."""
    return {JOB: job, COMPONENT: MASTER}


def role_selector(job: str, role: str) -> str:
    """Return the selector of all pods of a role, for autoscalers."""
    return f"{JOB}={job},{ROLE}={role}"


def job_of(pod: dict[str, Any]) -> tuple[str, str] | None:
    """Return namespace and name of the job that a pod belongs to, if any."""
    metadata = pod["metadata"]
    name = metadata.get("labels", {}).get(JOB)
    return None if name is None else (metadata.get("namespace", ""), name)


def job_key(obj: KubeObject) -> Key:
    """Return the key of the job that an object is or belongs to; else the object's own key."""
    return (obj.get("kind") != KIND and job_of(obj)) or key_of(obj)


def node_of(pod: dict[str, Any]) -> Node | None:
    """Return the node that a pod is; None for a master's pod, or if the labels are not ours."""
    metadata = pod["metadata"]
    labels = metadata.get("labels", {})
    if labels.get(COMPONENT) != NODE:
        return None
    try:
        rank, number = int(labels[RANK]), int(labels[ID])
        if not (0 <= rank < MAX_NODES and 0 <= number <= LARGEST_ID):
            return None
        return Node(role=labels[ROLE], rank=rank, id=number, name=metadata["name"])
    except (KeyError, ValueError):
        return None


def main_container_of(pod: Mapping[str, Any]) -> str:
    """Return the container that a node or a master runs in: not always the first, because admission
    webhooks may insert others before it."""
    named = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER)
    name: str = named or pod["spec"]["containers"][0]["name"]
    return name


def owner(job: ElasticJob, uid: str) -> dict[str, Any]:
    """Return the owner reference: Kubernetes deletes our objects together with the job."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job.metadata.name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
