"""A whole job on this machine: to its end, and with nodes and masters that die."""

from __future__ import annotations

import json
import os
import signal

from tests.local.commands import wait_for
from tests.local.up.ups import Machine, manifest, ticking


def test_a_job_runs_to_success_and_what_it_did_can_be_read_afterwards(machine: Machine) -> None:
    up = machine.up(manifest("short", {"worker": ticking(replicas=2, STEPS="20")}))
    assert up.wait() == 0
    assert "The job succeeded: all workers succeeded." in up.output
    assert "[short-worker-0] [rank0] step 19 of rank 0" in up.output
    assert "[short-worker-1] [rank1] step 19 of rank 1" in up.output
    machine.has_nothing_left()
    (row,) = json.loads(machine.says("jobs", "-o", "json"))
    assert (row["name"], row["phase"], row["ready"], row["wanted"]) == ("short", "Succeeded", 2, 2)
    assert "Succeeded: all workers succeeded" in machine.says("describe", "short")
    kinds = [kind for kind, _ in machine.events("short")]
    assert kinds.count("NodeStarted") == 2
    assert kinds[-3:] == ["JobSucceeded", "NodeSucceeded", "NodeSucceeded"]
    assert "step 19 of rank 1" in machine.says("logs", "short", "short-worker-1", "--tail", "3")
    whole = json.loads(machine.says("get", "short", "-o", "json"))
    assert (whole["apiVersion"], whole["kind"]) == ("view.resile.dev/v1", "JobView")
    assert whole["manifest"]["kind"] == "ElasticJob"
    assert whole["status"]["phase"] == "Succeeded"
    machine.says("delete", "short")
    assert machine.says("jobs").startswith("There are no jobs.")
    assert not (machine.home / "jobs" / "short").exists()


def test_a_killed_agent_is_replaced_under_its_rank_and_joins_the_running_job(
    machine: Machine,
) -> None:
    machine.up(manifest("killed", {"worker": ticking(replicas={"min": 1, "max": 2})}))
    first = machine.await_training("killed", nodes=2)
    victim = next(node for node in machine.nodes("killed") if node["rank"] == 0)
    os.kill(victim["pid"], signal.SIGKILL)
    machine.await_training("killed", nodes=2, after=first)
    replacement = next(node for node in machine.nodes("killed") if node["rank"] == 0)
    assert replacement["id"] > victim["id"]
    assert replacement["restarts"] == 1
    told = "was killed by SIGKILL (code 137); relaunched, budget spent"
    assert any(kind == "NodeRelaunched" and told in text for kind, text in machine.events("killed"))


def test_the_master_may_be_killed_and_the_job_goes_on_and_is_scaled_afterwards(
    machine: Machine,
) -> None:
    machine.up(manifest("steered", {"worker": ticking(replicas={"min": 1, "max": 3, "wanted": 2})}))
    first = machine.await_training("steered", nodes=2)
    killed = machine.master_pid()
    os.kill(killed, signal.SIGKILL)
    returned = ("MasterReturned", f"the master resumed round {first}")
    wait_for(lambda: returned in machine.events("steered"), "the master's return")
    assert machine.master_pid() != killed
    assert machine.view("steered")["training"]["round"] == first
    assert "worker: 2 -> 3 nodes" in machine.says("scale", "steered", "worker=3", "--wait")
    second = machine.await_training("steered", nodes=3, after=first)
    assert "worker: 3 -> 1 nodes" in machine.says("scale", "steered", "worker=1", "--wait")
    machine.await_training("steered", nodes=1, after=second)
    (left,) = [node for node in machine.nodes("steered") if node["phase"] == "Running"]
    assert left["rank"] == 0, "the highest ranks leave first"


def test_a_training_that_fails_for_good_is_reported_with_the_last_words_of_who_failed_first(
    machine: Machine,
) -> None:
    script = machine.folder / "fails.py"
    script.write_text("raise RuntimeError('no such luck')\n")
    role = {"script": str(script), "replicas": 1}
    up = machine.up(manifest("broken", {"worker": role}, maxRestarts=1))
    assert up.wait() == 1
    machine.has_nothing_left()
    assert "a worker failed and the only restart is used up" in up.output
    assert "failed first    rank 0 (local 0)" in up.output
    assert "RuntimeError: no such luck" in up.output.rpartition("last output")[2]
    described = machine.says("describe", "broken")
    assert "Failed: a worker failed" in described
    assert "RuntimeError: no such luck" in described


def test_an_evaluator_with_a_script_does_not_join_the_training(machine: Machine) -> None:
    roles = {"worker": ticking(STEPS="60"), "evaluator": ticking()}
    up = machine.up(manifest("judged", roles))
    machine.await_training("judged", nodes=1)
    assert machine.view("judged")["training"]["worldSize"] == 1
    wait_for(
        lambda: "step 3 of rank 0" in machine.says("logs", "judged", "evaluator"),
        "steps of the evaluator",
    )
    assert up.wait() == 0, up.output
    machine.has_nothing_left()
