"""The observed nodes of a job: its pods, the machines they run on, and pods that the API server
rejected. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from resile.control.observed import ObservedNode
from resile.control.pod_outcome import MachineState, observe_pod, one_line
from resile.job.exits import ExitCause, NodeExit
from resile.job.node import Node, NodePhase
from resile.job.spec.job import KIND
from resile.job.status import JobStatus, RequestVerb
from resile.kube.resources import Key, KubeObject, is_older
from resile.operator.build.labels import node_of
from resile.operator.observe.pod_status import pod_facts

__all__ = [
    "NodeStates",
    "RejectedPod",
    "Retryability",
    "machine_state",
    "observe_nodes",
    "owned_by",
    "owned_by_job",
    "trim_node",
]


class NodeStates:
    """The known machines, looked up by pod."""

    def __init__(self, known: Mapping[Key, KubeObject], *, read_until: str = "") -> None:
        """``read_until``: the resourceVersion up to which the history of machines was read."""
        self._known = known
        self._read_until = read_until

    def of(self, pod: Mapping[str, Any]) -> MachineState:
        """Return the state of the machine that a pod was scheduled on.

        An unknown machine is gone, unless the pod is newer than the cache of machines: a pod may be
        scheduled on a machine that has just joined the cluster, and its event may arrive first.
        """
        host = (pod.get("spec") or {}).get("nodeName")
        if not host:
            return MachineState.NONE
        machine = self._known.get(("", host))
        if machine is not None:
            return machine_state(machine)
        version = pod["metadata"].get("resourceVersion") or ""
        return MachineState.READY if is_older(self._read_until, version) else MachineState.GONE


def machine_state(machine: Mapping[str, Any]) -> MachineState:
    """Return the state of a machine from its Ready condition."""
    ready = next((one for one in _conditions(machine) if one["type"] == "Ready"), None)
    if ready is None or ready["status"] == "Unknown":
        return MachineState.UNKNOWN
    return MachineState.READY if ready["status"] == "True" else MachineState.NOT_READY


def trim_node(machine: KubeObject) -> KubeObject:
    """Return only the readiness of a machine: its object lists every image on it, and there may be
    thousands of machines."""
    metadata = {key: machine["metadata"].get(key) for key in ("name", "uid", "resourceVersion")}
    ready = [
        {"type": "Ready", "status": one["status"]}
        for one in _conditions(machine)
        if one["type"] == "Ready"
    ]
    return {"metadata": metadata, "status": {"conditions": ready}}


def _conditions(machine: Mapping[str, Any]) -> list[dict[str, Any]]:
    return (machine.get("status") or {}).get("conditions") or []


class Retryability(Enum):
    """The way in which a rejected pod can be retried."""

    LATER = "later"
    """The same pod may be accepted on a retry."""

    OTHERWISE = "otherwise"
    """The name is taken: a pod with another name may be accepted."""

    NEVER = "never"
    """The pod is invalid: it is retried once the manifest has changed."""


@dataclass(frozen=True)
class RejectedPod:
    """A node whose pod the API server rejected."""

    node: Node
    reason: str
    message: str
    outlook: Retryability = Retryability.LATER


def observe_nodes(
    pods: Iterable[Mapping[str, Any]],
    *,
    status: JobStatus,
    machines: NodeStates,
    refused: Mapping[int, RejectedPod],
    reachable: Collection[str],
    preempted: Mapping[str, str],
) -> tuple[ObservedNode, ...]:
    """Return all nodes of a job. ``reachable``: names of nodes whose agents are connected to the
    master. ``preempted``: the scheduler's messages about preempted pods, by uid."""
    stopping = {
        request.node.id for request in status.pending_requests if request.verb is RequestVerb.STOP
    }
    seen: dict[int, ObservedNode] = {}
    for pod in pods:
        node = node_of(dict(pod))
        if node is not None:
            told_of = preempted.get(pod["metadata"].get("uid", ""), "")
            facts = pod_facts(node, pod, machine=machines.of(pod), preempted=told_of)
            seen[node.id] = observe_pod(
                facts, stop_requested=node.id in stopping, reachable=node.name in reachable
            )
    for number, refusal in refused.items():
        seen.setdefault(number, _rejected_node(refusal))
    return tuple(seen.values())


def _rejected_node(refusal: RejectedPod) -> ObservedNode:
    message = one_line(refusal.message)
    if refusal.outlook is Retryability.OTHERWISE:
        end = NodeExit(reason=ExitCause.NEVER_STARTED.value, message=message)
        return ObservedNode(node=refusal.node, phase=NodePhase.FAILED, exit=end, made=False)
    return ObservedNode(
        node=refusal.node,
        phase=NodePhase.PENDING,
        reason=refusal.reason,
        message=message,
        made=False,
    )


def owned_by(uid: str, found: Mapping[str, Any]) -> bool:
    """Return whether an object belongs to the job with this uid, not to an earlier namesake."""
    owners = found["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == uid for owner in owners)


def owned_by_job(name: str, found: Mapping[str, Any]) -> bool:
    """Return whether an object belongs to a job of this name, even an earlier one."""
    owners = found["metadata"].get("ownerReferences") or ()
    return any((owner.get("kind"), owner.get("name")) == (KIND, name) for owner in owners)
