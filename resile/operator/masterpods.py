"""The pods of a job's master: the current one, its address, its problem. Pure.

A pod that is gone, ended or on a lost machine is replaced under a new name; one that merely crashed
is restarted in place by its kubelet, over the same store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from resile.control.pods import MachineState, why_pending
from resile.job.exits import NodeExit, describe
from resile.job.naming import master_serial
from resile.job.node import Node
from resile.job.spec import ElasticJob
from resile.platform.kubernetes.facts import pod_facts
from resile.platform.kubernetes.kinds import KubeObject
from resile.platform.kubernetes.machines import Machines
from resile.wire.endpoint import DEFAULT_PORT, Endpoint

__all__ = [
    "created_before",
    "current_master",
    "is_ready",
    "is_running",
    "master_address",
    "next_serial",
    "pod_problem",
]

CRASH_LOOP = "CrashLoopBackOff"
"""The kubelet's own message contains a delay that changes all the time."""

_LOST = frozenset({MachineState.UNKNOWN, MachineState.GONE})
_ON_ITS_WAY = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Waiting reasons of a pod that is just starting."""


def current_master(
    job: ElasticJob, pods: Sequence[KubeObject], *, machines: Machines
) -> KubeObject | None:
    """Return the master that runs or is being started; of several the newest."""
    usable = [pod for pod in pods if _usable(pod, machines)]
    return max(usable, key=lambda pod: _serial(job, pod), default=None)


def next_serial(job: ElasticJob, pods: Iterable[KubeObject]) -> int:
    """Return the number of the next master's pod: above all existing ones, so that a name that a
    lost machine still holds is not waited for."""
    return max((_serial(job, pod) for pod in pods), default=-1) + 1


def master_address(pod: KubeObject | None) -> Endpoint | None:
    """Return the address at which the operator reaches it, once it runs."""
    status = {} if pod is None else pod.get("status") or {}
    address = status.get("podIP")
    if not address or status.get("phase") != "Running":
        return None
    return Endpoint(address, DEFAULT_PORT)


def pod_problem(pod: KubeObject | None) -> str:
    """Return why the master does not work, for people; empty if nothing is wrong, or not yet."""
    if pod is None:
        return ""
    name = pod["metadata"]["name"]
    facts = pod_facts(Node(role="master", rank=0, id=0, name=name), pod)
    scheduled = facts.conditions.get("PodScheduled")
    unplaced = scheduled is not None and scheduled.status == "False"
    if not unplaced and facts.waiting in _ON_ITS_WAY:
        return ""
    why = "it keeps crashing" if facts.waiting == CRASH_LOOP else why_pending(facts)[1]
    return f"{name}: {why}{_last_words(pod)}"


def is_ready(pod: KubeObject) -> bool:
    """Return whether a master's pod is Ready."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def _last_words(pod: Mapping[str, Any]) -> str:
    """Return how a master that keeps crashing ended last, and the end of its log."""
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        ended = (one.get("lastState") or {}).get("terminated") or {}
        if ended:
            said = " ".join(str(ended.get("message") or "").split())
            how = f"it {describe(NodeExit(code=ended.get('exitCode')))}"
            return f"; {how}: {said[-_SAID_AT_MOST:]}" if said else f"; {how}"
    return ""


_SAID_AT_MOST = 300
"""Characters, from the end: it says more than the beginning."""


def is_running(node: KubeObject, machines: Machines) -> bool:
    """Return whether a node's pod is running, even if it is being deleted: its agent may hold what
    a master lost."""
    running = (node.get("status") or {}).get("phase") == "Running"
    return running and machines.of(node) not in _LOST


def created_before(node: KubeObject, master: KubeObject) -> bool:
    """Return whether a node's pod was created before a master's, by at least a second."""
    first, then = (pod["metadata"]["creationTimestamp"] for pod in (node, master))
    return bool(first < then)


def _usable(pod: KubeObject, machines: Machines) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    return machines.of(pod) not in _LOST


def _serial(job: ElasticJob, pod: KubeObject) -> int:
    return master_serial(job, pod["metadata"]["name"])
