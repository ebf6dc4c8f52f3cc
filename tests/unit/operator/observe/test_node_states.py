"""The states of the machines that pods run on."""

from __future__ import annotations

from typing import Any

import pytest

from resile.control.pod_outcome import MachineState
from resile.operator.observe.nodes import NodeStates, machine_state, trim_node


def machine(ready: str | None, *, name: str = "node-a") -> dict[str, Any]:
    others = [{"type": "DiskPressure", "status": "False"}]
    own = [] if ready is None else [{"type": "Ready", "status": ready, "reason": "Kubelet"}]
    return {
        "metadata": {"name": name, "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}},
        "spec": {"podCIDR": "10.0.0.0/24"},
        "status": {"conditions": [*others, *own], "images": [{"names": ["big"]}]},
    }


def pod(host: str | None, *, version: str = "50") -> dict[str, Any]:
    return {"metadata": {"name": "p", "resourceVersion": version}, "spec": {"nodeName": host}}


@pytest.mark.parametrize(
    ("ready", "state"),
    [
        ("True", MachineState.READY),
        ("False", MachineState.NOT_READY),
        ("Unknown", MachineState.UNKNOWN),
        (None, MachineState.UNKNOWN),
    ],
)
def test_what_its_kubelet_says(ready: str | None, state: MachineState) -> None:
    assert machine_state(machine(ready)) is state
    assert machine_state(trim_node(machine(ready))) is state, "nothing else is needed"
    known = NodeStates({("", "node-a"): machine(ready)}, read_until="100")
    assert known.of(pod("node-a")) is state


def test_a_pod_that_was_not_placed_has_no_machine() -> None:
    assert NodeStates({}, read_until="100").of(pod(None)) is MachineState.NONE


def test_a_machine_that_is_not_there_is_gone() -> None:
    assert NodeStates({}, read_until="100").of(pod("node-b", version="100")) is MachineState.GONE


def test_a_machine_is_not_gone_while_nobody_could_have_told_of_it() -> None:
    known = NodeStates({}, read_until="100")
    assert known.of(pod("node-new", version="101")) is MachineState.READY


def test_of_a_machine_little_is_remembered() -> None:
    found = trim_node(machine("True"))
    assert found == {
        "metadata": {"name": "node-a", "uid": "u", "resourceVersion": "7"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
