"""What a pod's and a machine's objects say, taken out of the API server's JSON. Pure.

Only picks fields; what they mean is ``control/pods``'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from resile.control.pods import DISRUPTION_TARGET, MachineState, PodCondition, PodFacts
from resile.job.node import Node

__all__ = ["machine_state", "parse_time", "pod_facts"]


def pod_facts(
    node: Node, pod: Mapping[str, Any], machines: Mapping[str, Any], *, preempted: str = ""
) -> PodFacts:
    """The facts on a node's pod. ``machines``: the cluster's Node objects, by name; ``preempted``:
    what an Event says of its preemption, on clusters whose pods do not say it themselves."""
    status = pod.get("status") or {}
    conditions = _conditions(status.get("conditions") or ())
    if preempted:
        told = PodCondition("True", reason="PreemptionByScheduler", message=preempted)
        conditions.setdefault(DISRUPTION_TARGET, told)
    host = pod.get("spec", {}).get("nodeName") or ""
    state = _main_state(pod)
    waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
    started = state.get("running") or ended
    return PodFacts(
        node=node,
        phase=status.get("phase") or "Pending",
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        conditions=conditions,
        deleting="deletionTimestamp" in pod["metadata"],
        waiting=waiting.get("reason") or "",
        waiting_message=waiting.get("message") or "",
        terminated=(ended.get("reason") or "Error") if ended else "",
        terminated_message=ended.get("message") or "",
        exit_code=ended.get("exitCode"),
        signal=ended.get("signal"),
        host=host,
        started_at=parse_time(started.get("startedAt")),
        ended_at=parse_time(ended.get("finishedAt")),
        machine=machine_state(machines.get(host)) if host else MachineState.NONE,
    )


def machine_state(machine: Mapping[str, Any] | None) -> MachineState:
    """The state of a placed pod's machine."""
    if machine is None:
        return MachineState.GONE
    conditions = _conditions(machine.get("status", {}).get("conditions") or ())
    ready = conditions.get("Ready")
    if ready is None or ready.status == "Unknown":
        return MachineState.UNKNOWN
    return MachineState.READY if ready.status == "True" else MachineState.NOT_READY


def parse_time(text: str | None) -> datetime | None:
    """A time as Kubernetes writes it; None for the zero time of a container that never ran."""
    if not text or text.startswith("0001-"):
        return None
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _main_state(pod: Mapping[str, Any]) -> Mapping[str, Any]:
    """The state of the container that trains: the first of the spec. Init containers that wait or
    have failed speak for it until it has one of its own."""
    status = pod.get("status") or {}
    containers = pod.get("spec", {}).get("containers") or [{}]
    name = containers[0].get("name")
    for one in status.get("containerStatuses") or ():
        if one.get("name") == name:
            state: Mapping[str, Any] = one.get("state") or {}
            if (state.get("waiting") or {}).get("reason") != "PodInitializing":
                return state
    for one in status.get("initContainerStatuses") or ():
        state = one.get("state") or {}
        ended = state.get("terminated") or {}
        if state.get("waiting") or ended.get("exitCode"):
            return state
    return {}


def _conditions(listed: Iterable[Mapping[str, Any]]) -> dict[str, PodCondition]:
    return {
        one["type"]: PodCondition(
            status=one.get("status") or "",
            reason=one.get("reason") or "",
            message=one.get("message") or "",
        )
        for one in listed
    }
