"""The progress of a node's workers is shown separately, so that a slow one can be identified."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from tests.local.commands import wait_for
from tests.local.up.ups import PROGRAMS, Machine, manifest


def ranks(machine: Machine) -> list[dict[str, Any]]:
    training = json.loads(machine.says("describe", "uneven", "-o", "json"))["training"]
    nodes = list(training["nodes"].values()) if training else []
    return list(nodes[0]["ranks"]) if nodes else []


def test_each_worker_has_its_own_step_age_and_step_time(machine: Machine) -> None:
    role = {"script": str(PROGRAMS / "uneven.py"), "procsPerNode": 2}
    machine.up(manifest("uneven", {"worker": role}))
    machine.await_training("uneven", nodes=1)

    def measured() -> list[dict[str, Any]]:
        seen = ranks(machine)
        told = len(seen) == 2 and all(one["step"] >= 8 for one in seen)
        return seen if told else []

    fast, slow = wait_for(measured, "both workers' steps")
    assert [(one["localRank"], one["rank"]) for one in (fast, slow)] == [(0, 0), (1, 1)]
    assert fast["step"] > slow["step"]
    assert slow["stepTime"] > 1.5 * fast["stepTime"] > 0

    described = json.loads(machine.says("describe", "uneven", "-o", "json"))
    stuck = described["nodes"][0]["workerPids"][1]
    os.kill(stuck, signal.SIGSTOP)
    try:
        # The other one goes on reporting: the node as a whole looks healthy, this rank does not.
        wait_for(lambda: ranks(machine)[1]["age"] > 3.0, "the age of a worker that hangs")
        assert ranks(machine)[0]["age"] < 3.0
    finally:
        os.kill(stuck, signal.SIGCONT)
