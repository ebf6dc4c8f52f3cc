"""Failed workers are counted in the job's status, while the job runs and afterwards."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from tests.local.commands import wait_for
from tests.local.up.ups import Machine, manifest, ticking


def described(machine: Machine, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(machine.says("describe", name, "-o", "json"))
    return found


def test_a_node_counts_the_restarts_of_its_workers(machine: Machine) -> None:
    role = ticking(replicas=2, PAUSE="0.05")
    up = machine.up(manifest("failing", {"worker": role}, maxRestarts=9))
    latest, killed = 0, set[int]()

    def next_worker() -> int:
        """The second node's worker, once its agent has reported its pid."""
        nodes = machine.nodes("failing")
        return next((pid for pid in nodes[1]["workerPids"] if pid not in killed), 0)

    for _ in range(3):
        latest = machine.await_training("failing", nodes=2, after=latest)
        pid = wait_for(next_worker, "a worker")
        killed.add(pid)
        os.kill(pid, signal.SIGKILL)
    machine.await_training("failing", nodes=2, after=latest)

    def restarts() -> list[int]:
        return [node["restarts"] for node in described(machine, "failing")["nodes"]]

    wait_for(lambda: restarts()[1] == 3, "three restarts")
    up.signal(signal.SIGINT)
    assert up.wait() == 130
    assert restarts()[1] == 3, "it is remembered"
    told = machine.says("describe", "failing")
    assert "Interrupted: 2 of 2 nodes were ended with it" in told
    assert "nodes are running" not in told.partition("Conditions")[0]
