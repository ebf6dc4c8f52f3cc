"""The commands from another terminal, on one running job and on none."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.local.commands import wait_for
from tests.local.up.ups import Machine, manifest, ticking


def follow(machine: Machine, *words: str) -> subprocess.Popen[str]:
    """A command that goes on until the job is over."""
    return subprocess.Popen(
        [sys.executable, "-m", "resile", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=machine.env(),
    )


@pytest.fixture
def followers() -> Iterator[list[subprocess.Popen[str]]]:
    """Commands that are ended with the test."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def test_commands_show_and_steer_a_running_job(
    machine: Machine, followers: list[subprocess.Popen[str]]
) -> None:
    replicas = {"min": 1, "max": 3, "wanted": 2}
    up = machine.up(manifest("seen", {"worker": ticking(replicas=replicas, PAUSE="0.1")}))
    machine.await_training("seen", nodes=2)

    (row,) = json.loads(machine.says("jobs", "-o", "json"))
    assert (row["phase"], row["ready"], row["wanted"]) == ("Running", 2, 2)
    assert row["step"] is not None
    assert machine.says("jobs").splitlines()[0].split() == [
        *("NAME", "PHASE", "NODES", "RESTARTS", "STEP", "AGE")
    ]

    described = machine.says("describe", "seen")
    for fact in ("Running: 2 of 2 nodes are running", "round 1 (running), 2 workers, step"):
        assert fact in described
    for section in ("Roles", "Nodes", "Conditions", "Events (the last"):
        assert f"\n{section}" in described
    assert "1..3" in described

    wait_for(lambda: " steps/s\n" in machine.says("describe", "seen"), "a speed to be told")

    said = machine.says("logs", "seen", "--master", "--tail", "2").splitlines()
    assert len(said) == 2
    assert "RoundRunning: round 1: 2 nodes, 2 workers" in said[1]
    assert not said[1].startswith("["), "one log needs no names"
    assert machine.says("logs", "seen", "--master", "--prefix").startswith("[seen-master] ")
    assert "leave --all, --rank and names out" in machine.refuses("logs", "seen", "--master", "x")

    text = machine.says("get", "seen")
    assert "phase: Running" in text
    assert json.loads(machine.says("get", "seen", "-o", "json"))["status"]["phase"] == "Running"

    followers += [follow(machine, "events", "seen", "-f"), follow(machine, "logs", "seen", "-f")]
    one = machine.says("logs", "seen", "seen-worker-1")
    assert "step 0 of rank 1" in one
    assert "[seen-worker-1]" not in one, "one log needs no names"
    both = machine.says("logs", "seen", "worker")
    assert "[seen-worker-0] [rank0] step 0 of rank 0" in both
    assert "has no node or role 'trainer'" in machine.refuses("logs", "seen", "trainer")

    for words, complaint in (
        (("worker=9",), "role worker may have 1 to 3 nodes, not 9"),
        (("worker=0",), "role worker may have 1 to 3 nodes, not 0"),
        (("trainer=2",), "there is no role 'trainer'; there are worker"),
        (("worker=many",), "'many' is no number of nodes"),
        (("worker=-1",), "'-1' is no number of nodes"),
        (("worker",), "write ROLE=N"),
        (("worker=1", "worker=2"), "worker is given twice"),
    ):
        assert complaint in machine.refuses("scale", "seen", *words)
    assert machine.picture("seen")["wishes"] == {}, "what is refused is not kept"
    assert machine.says("scale", "seen", "worker=2") == "worker: 2 nodes\n"

    assert "Did you mean 'seen'?" in machine.refuses("describe", "sen")
    up.signal(signal.SIGINT)
    assert up.wait() == 130
    told, printed = (process.communicate(timeout=60)[0] for process in followers)
    assert "RoundRunning" in told
    assert told.rstrip().splitlines()[-1].split()[1] in ("NodeLeft", "RoundForming")
    assert "[seen-worker-1] [rank1] step 0 of rank 1" in printed
    assert "SIGTERM: leaving the job" in printed, "followed to the end"


def test_commands_say_what_is_wrong_where_there_is_no_job(machine: Machine) -> None:
    assert machine.says("jobs").startswith("There are no jobs.")
    for words in (("describe",), ("logs",), ("events",), ("get",), ("delete",)):
        complaint = machine.refuses(*words, "ghost")
        assert "there is no job 'ghost'" in complaint
        assert "resile up job.yaml" in complaint
    assert "there is no job '../../etc'" in machine.refuses("delete", "../../etc")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("kind: [", "not valid YAML"),
        ("kind: ElasticJob", "apiVersion"),
        ("", "expected a mapping"),
        ("\x00", "not valid YAML"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_refused_in_a_few_lines(
    machine: Machine, text: str, complaint: str
) -> None:
    path = machine.folder / "job.yaml"
    path.write_text(text)
    said = machine.refuses("up", str(path))
    assert complaint in said
    assert "job.yaml" in said


def test_up_names_what_is_wrong_before_anything_is_started(machine: Machine) -> None:
    role = ticking()
    missing = machine.write(manifest("gone", {"worker": {**role, "script": "gone.py"}}))
    assert f"spec.roles.worker.script: gone.py does not exist in {machine.folder}" in (
        machine.refuses("up", str(missing))
    )
    nowhere = machine.write(manifest("gone", {"worker": {**role, "workingDir": "nowhere"}}))
    assert "spec.roles.worker.workingDir: there is no folder" in machine.refuses("up", str(nowhere))
    wrong = machine.write(manifest("gone", {"worker": {**role, "replicas": "many", "imag": "x"}}))
    said = machine.refuses("up", str(wrong))
    assert "2 problems in the manifest" in said
    assert "spec.roles.worker.replicas" in said
    assert "spec.roles.worker.imag" in said
    fine = str(machine.write(manifest("fine", {"worker": role})))
    assert "--capacity 'lots'" in machine.refuses("up", fine, "--capacity", "lots")
    assert "--name Bad_Name" in machine.refuses("up", fine, "--name", "Bad_Name")
    assert "cannot be read: No such file or directory" in machine.refuses("up", "absent.yaml")
    assert not machine.home.exists(), "nothing was begun"


def test_a_state_folder_that_cannot_be_used_is_named(machine: Machine) -> None:
    machine.home.write_text("a file, not a folder")
    described = machine.write(manifest("fine", {"worker": ticking()}))
    said = machine.refuses("up", str(described))
    assert "cannot be used: Not a directory; $RESILE_HOME names another place" in said


def test_every_command_has_help_with_examples(machine: Machine) -> None:
    for command in ("up", "jobs", "describe", "logs", "events", "scale", "get", "delete"):
        said = machine.says(command, "--help")
        assert "Examples:" in said
        assert f"resile {command}" in said
    assert "Did you mean 'describe'?" in machine.refuses("descrieb")


def test_log_lines_are_followed_over_the_masters_death(
    machine: Machine, followers: list[subprocess.Popen[str]]
) -> None:
    up = machine.up(manifest("followed", {"worker": ticking(PAUSE="0.1")}))
    machine.await_training("followed", nodes=1)
    followers.append(follow(machine, "logs", "followed", "-f"))
    os.kill(machine.master_pid(), signal.SIGKILL)
    wait_for(lambda: machine.picture("followed").get("training"), "the master's return")
    step = machine.nodes("followed")[0]["step"] or 0
    wait_for(lambda: (machine.nodes("followed")[0]["step"] or 0) > step + 20, "more steps")
    up.signal(signal.SIGINT)
    up.wait()
    printed = followers[0].communicate(timeout=60)[0]
    steps = [int(number) for number in re.findall(r"\] step (\d+) of rank 0", printed)]
    assert steps == list(range(len(steps))), "each line once"
    assert steps[-1] > step + 20
