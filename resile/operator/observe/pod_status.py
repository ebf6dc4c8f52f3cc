"""Extract the fields of a pod that matter from the API server's JSON. Pure.

``control/pods`` interprets them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from resile.control.pod_outcome import DISRUPTION_TARGET, MachineState, PodCondition, PodSummary
from resile.job.node import Node
from resile.operator.build.labels import DEFAULT_CONTAINER, main_container_of

__all__ = ["trim_pod", "parse_time", "pod_facts"]

_KEPT_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "labels", "ownerReferences"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
)
_KEPT_SPEC = ("nodeName", "schedulingGates")
_KEPT_STATUS = (
    *("phase", "reason", "message", "podIP", "conditions"),
    *("containerStatuses", "initContainerStatuses"),
)
_CONTAINERS = ("containers", "initContainers")


def trim_pod(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod that is cached. Its spec may be of any length, and there may be
    thousands of pods."""
    metadata, spec = pod["metadata"], pod.get("spec") or {}
    main = (metadata.get("annotations") or {}).get(DEFAULT_CONTAINER)
    containers = {
        key: [_picked(one, ("name", "restartPolicy")) for one in spec[key]]
        for key in _CONTAINERS
        if spec.get(key)
    }
    return {
        **_picked(pod, ("apiVersion", "kind")),
        "metadata": {
            **_picked(metadata, _KEPT_METADATA),
            **({"annotations": {DEFAULT_CONTAINER: main}} if main else {}),
        },
        "spec": {**_picked(spec, _KEPT_SPEC), **containers},
        "status": _picked(pod.get("status") or {}, _KEPT_STATUS),
    }


def _picked(data: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: data[name] for name in names if name in data}


def pod_facts(
    node: Node,
    pod: Mapping[str, Any],
    *,
    machine: MachineState = MachineState.READY,
    preempted: str = "",
) -> PodSummary:
    """Return the facts about a node's pod. ``machine``: the state of its machine; ``preempted``:
    the message of the Event about its preemption, on clusters whose pods have no such condition."""
    status = pod.get("status") or {}
    conditions = _conditions(status.get("conditions") or ())
    if preempted:
        preemption = PodCondition("True", reason="PreemptionByScheduler", message=preempted)
        conditions.setdefault(DISRUPTION_TARGET, preemption)
    host = pod.get("spec", {}).get("nodeName") or ""
    state = _main_state(pod)
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    started = state.get("running") or ended
    return PodSummary(
        node=node,
        phase=status.get("phase") or "Pending",
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        conditions=conditions,
        deletion_asked_at=_deletion_asked_at(pod["metadata"]),
        waiting=waiting.get("reason") or "",
        waiting_message=waiting.get("message") or "",
        terminated=(ended.get("reason") or "Error") if ended else "",
        terminated_message=ended.get("message") or "",
        exit_code=ended.get("exitCode"),
        signal=ended.get("signal"),
        host=host,
        started_at=parse_time(started.get("startedAt")),
        ended_at=parse_time(ended.get("finishedAt")),
        machine=machine if host else MachineState.NONE,
        sidecar_running=_accompanied(pod),
    )


def parse_time(text: str | None) -> datetime | None:
    """Parse a time of Kubernetes; None for the zero time of a container that never ran."""
    if not text or text.startswith("0001-"):
        return None
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _main_state(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state of the container that trains. Until it has one, the state of an init container that
    waits or has failed."""
    status, name = pod.get("status") or {}, main_container_of(pod)
    for one in status.get("containerStatuses") or ():
        if one.get("name") == name:
            state: Mapping[str, Any] = one.get("state") or {}
            if (state.get("waiting") or {}).get("reason") != "PodInitializing":
                return state
    restarted = _restarted_in_place(pod)
    for one in status.get("initContainerStatuses") or ():
        state = one.get("state") or {}
        ended = state.get("terminated") or {}
        if state.get("waiting") or (ended.get("exitCode") and one.get("name") not in restarted):
            return state
    return {}


def _restarted_in_place(pod: Mapping[str, Any]) -> set[str]:
    """Sidecars among the init containers: the kubelet restarts them when they end."""
    listed = (pod.get("spec") or {}).get("initContainers") or ()
    return {one["name"] for one in listed if one.get("restartPolicy") == "Always"}


def _accompanied(pod: Mapping[str, Any]) -> bool:
    """Return whether another container than the one that trains has not ended. Sidecars among the
    init containers do not count: the kubelet ends them by itself."""
    listed, main = (pod.get("status") or {}).get("containerStatuses") or (), main_container_of(pod)
    others = (one.get("state") or {} for one in listed if one.get("name") != main)
    return any(not state.get("terminated") for state in others)


def _deletion_asked_at(metadata: Mapping[str, Any]) -> datetime | None:
    """When deletion was requested: the deletionTimestamp minus the grace period."""
    due = parse_time(metadata.get("deletionTimestamp"))
    grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return None if due is None else due - grace


def _conditions(listed: Iterable[Mapping[str, Any]]) -> dict[str, PodCondition]:
    return {
        one["type"]: PodCondition(
            status=one.get("status") or "",
            reason=one.get("reason") or "",
            message=one.get("message") or "",
        )
        for one in listed
    }
