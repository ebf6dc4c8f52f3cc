"""Limited capacity: pending nodes, priorities, memory limits, exit codes."""

from __future__ import annotations

import json
import sys

from resile.job.training import amount_in
from tests.local.commands import wait_for
from tests.local.up.ups import PROGRAMS, Machine, manifest, waiting


def test_what_does_not_fit_is_pending_and_starts_when_there_is_room(machine: Machine) -> None:
    first, second = machine.folder / "first", machine.folder / "second"
    half = {"requests": {"cpu": "1"}}
    roles = {
        "early": waiting(first, resources=half),
        "late": waiting(second, resources=half, dependsOn=["early"]),
    }
    described = manifest("tight", roles, success={"roles": ["early", "late"]})
    up = machine.up(described, "--capacity", "cpu=1,memory=1Gi")
    machine.await_nodes("tight", role="early", phase="Running")
    (pending,) = machine.await_nodes("tight", role="late", phase="Pending", reason="Unschedulable")
    assert "cpu" in pending["message"]
    up.says("NodePending")
    assert pending["message"] in machine.says("describe", "tight")
    first.write_text("0")
    machine.await_nodes("tight", role="late", phase="Running")
    second.write_text("0")
    assert up.wait() == 0
    kinds = [kind for kind, _ in machine.events("tight")]
    assert kinds.index("NodePending") < len(kinds) - 1 - kinds[::-1].index("NodeStarted")


def test_a_higher_priority_preempts_and_the_preempted_comes_back_without_cost(
    machine: Machine,
) -> None:
    low, high = machine.folder / "low", machine.folder / "high"
    whole = {"requests": {"cpu": "1"}}
    roles = {
        "small": waiting(low, resources=whole, priority="low"),
        "grand": waiting(
            high, resources=whole, priority="high", replicas={"min": 0, "max": 1, "wanted": 0}
        ),
    }
    described = manifest("ranked", roles, success={"roles": ["small"]})
    up = machine.up(described, "--capacity", "cpu=1,memory=1Gi")
    (victim,) = machine.await_nodes("ranked", role="small", phase="Running")
    machine.says("scale", "ranked", "grand=1")
    machine.await_nodes("ranked", role="grand", phase="Running")
    (back,) = machine.await_nodes("ranked", role="small", phase="Pending")
    assert back["id"] > victim["id"]
    assert (back["restarts"], back["spent"]) == (1, 0)
    relaunched = [text for kind, text in machine.events("ranked") if kind == "NodeRelaunched"]
    assert any("was preempted" in text and "no budget spent" in text for text in relaunched)
    high.write_text("0")
    machine.await_nodes("ranked", role="small", phase="Running")
    low.write_text("0")
    assert up.wait() == 0


def test_a_node_over_its_memory_limit_is_killed_and_comes_back_with_twice_as_much(
    machine: Machine,
) -> None:
    gate = machine.folder / "gate"
    role = {
        "command": [sys.executable, str(PROGRAMS / "hog.py"), "150", str(gate)],
        "resources": {"limits": {"memory": "100Mi"}},
    }
    up = machine.up(manifest("hungry", {"worker": role}))
    up.says("took 150 MiB")
    (node,) = machine.await_nodes("hungry", phase="Running", restarts=1)
    assert node["memoryLimit"] == "200Mi"
    assert node["spent"] == 0
    relaunched = [text for kind, text in machine.events("hungry") if kind == "NodeRelaunched"]
    assert relaunched == [
        "hungry-worker-0 (rank 0) ran out of 100Mi of memory; relaunched with 200Mi, "
        "no budget spent"
    ]

    def used() -> float:
        return amount_in(machine.nodes("hungry")[0]["memory"]) or 0.0

    wait_for(lambda: used() > 150 * 1024 * 1024, "the memory that it has taken to be seen")
    gate.touch()
    assert up.wait() == 0


def test_a_permanent_exit_code_fails_the_job_with_the_reason(machine: Machine) -> None:
    gate = machine.folder / "gate"
    gate.write_text("3")
    role = waiting(gate, exitCodes=[{"codes": [3], "action": "Fail"}])
    up = machine.up(manifest("final", {"worker": role}))
    assert up.wait() == 1
    assert "exitCodes says Fail for code 3" in up.output
    assert "leaving with 3" in up.output.rpartition("the last lines of final-worker-0")[2]
    whole = json.loads(machine.says("get", "final", "-o", "json"))
    failed = next(c for c in whole["status"]["conditions"] if c["type"] == "Failed")
    assert failed["reason"] == "TooFewNodes"


def test_a_failing_node_is_relaunched_until_its_budget_is_spent(machine: Machine) -> None:
    gate = machine.folder / "gate"
    gate.write_text("9")
    role = waiting(gate, restartBudget={"perNode": 1})
    up = machine.up(manifest("again", {"worker": role}, backoff={"baseSeconds": 0}))
    assert up.wait() == 1
    assert "relaunched, budget spent" in up.output
    assert "its restartBudget of 1 is spent" in up.output
    assert [file.node for file in machine.job("again").log_files()] == [
        "again-worker-0",
        "again-worker-1",
    ]
