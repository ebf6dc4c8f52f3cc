"""The states of the machines that pods run on, from the cluster's Node objects. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resile.control.pods import MachineState
from resile.platform.kubernetes.kinds import Key, KubeObject
from resile.platform.kubernetes.versions import is_older

__all__ = ["Machines", "machine_state", "readiness_alone"]


class Machines:
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
        told = pod["metadata"].get("resourceVersion") or ""
        return MachineState.READY if is_older(self._read_until, told) else MachineState.GONE


def machine_state(machine: Mapping[str, Any]) -> MachineState:
    """Return the state of a machine from its Ready condition."""
    ready = next((one for one in _conditions(machine) if one["type"] == "Ready"), None)
    if ready is None or ready["status"] == "Unknown":
        return MachineState.UNKNOWN
    return MachineState.READY if ready["status"] == "True" else MachineState.NOT_READY


def readiness_alone(machine: KubeObject) -> KubeObject:
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
