"""The observed nodes of a job: its pods, and those that the API server rejected. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from resile.control.observed import ObservedNode
from resile.control.pods import observe_pod, one_line
from resile.job.exits import ExitCause, NodeExit
from resile.job.node import Node, NodePhase
from resile.job.spec import KIND
from resile.job.status import AskVerb, JobStatus
from resile.platform.kubernetes.facts import pod_facts
from resile.platform.kubernetes.labels import node_of
from resile.platform.kubernetes.machines import Machines

__all__ = ["Outlook", "PodRefusal", "observe_nodes", "owned_by", "owned_by_job"]


class Outlook(Enum):
    """The way in which a rejected pod can be retried."""

    LATER = "later"
    """The same pod may be accepted on a retry."""

    OTHERWISE = "otherwise"
    """The name is taken: a pod with another name may be accepted."""

    NEVER = "never"
    """The pod is invalid: it is retried once the manifest has changed."""


@dataclass(frozen=True)
class PodRefusal:
    """A node whose pod the API server rejected."""

    node: Node
    reason: str
    message: str
    outlook: Outlook = Outlook.LATER


def observe_nodes(
    pods: Iterable[Mapping[str, Any]],
    *,
    status: JobStatus,
    machines: Machines,
    refused: Mapping[int, PodRefusal],
    in_touch: Collection[str],
    preempted: Mapping[str, str],
) -> tuple[ObservedNode, ...]:
    """Return all nodes of a job. ``in_touch``: names of nodes whose agents are connected to the
    master. ``preempted``: the scheduler's messages about preempted pods, by uid."""
    told = {ask.node.id for ask in status.asks if ask.verb is AskVerb.STOP}
    seen: dict[int, ObservedNode] = {}
    for pod in pods:
        node = node_of(dict(pod))
        if node is not None:
            told_of = preempted.get(pod["metadata"].get("uid", ""), "")
            facts = pod_facts(node, pod, machine=machines.of(pod), preempted=told_of)
            seen[node.id] = observe_pod(
                facts, told_to_stop=node.id in told, in_touch=node.name in in_touch
            )
    for number, refusal in refused.items():
        seen.setdefault(number, _rejected_node(refusal))
    return tuple(seen.values())


def _rejected_node(refusal: PodRefusal) -> ObservedNode:
    message = one_line(refusal.message)
    if refusal.outlook is Outlook.OTHERWISE:
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
