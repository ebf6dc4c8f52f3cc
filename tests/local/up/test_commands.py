"""The commands from another terminal: followed to a job's end, and without a job."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from tests.local.commands import Command, wait_for
from tests.local.up.ups import Machine, manifest, ticking
from tests.warm_commands import resile_command

Follow = Callable[..., Command]


@pytest.fixture
def follow(machine: Machine) -> Iterator[Follow]:
    """Starts commands that run until the job or the test ends."""
    started: list[Command] = []

    def follow(*words: str) -> Command:
        path = machine.folder / f"follower{len(started)}.log"
        with open(path, "wb") as output:
            command = [*resile_command(), *words]
            process = subprocess.Popen(command, stdout=output, stderr=output, env=machine.env())
        started.append(Command(process, path))
        return started[-1]

    yield follow
    for command in started:
        command.process.kill()
        command.process.wait()


def test_events_and_logs_are_followed_to_the_end_of_the_job(
    machine: Machine, follow: Follow
) -> None:
    up = machine.up(manifest("seen", {"worker": ticking(replicas=2, PAUSE="0.1")}))
    machine.await_training("seen", nodes=2)
    events, logs = follow("events", "seen", "-f"), follow("logs", "seen", "-f")
    events.says("RoundRunning")
    logs.says("[seen-worker-1] [rank1] step 0 of rank 1")
    up.signal(signal.SIGINT)
    assert up.wait() == 130
    assert (events.wait(), logs.wait()) == (0, 0)
    assert events.output.rstrip().splitlines()[-1].split()[1] in ("NodeLeft", "RoundForming")
    assert "SIGTERM: leaving the job" in logs.output


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
    assert "cannot be used: Not a directory; set $RESILE_HOME to another folder" in said


def test_every_command_has_help_with_examples(machine: Machine) -> None:
    for command in ("up", "jobs", "describe", "logs", "events", "scale", "get", "delete"):
        said = machine.says(command, "--help")
        assert "Examples:" in said
        assert f"resile {command}" in said
    assert "Did you mean 'describe'?" in machine.refuses("descrieb")


def test_log_lines_are_followed_over_the_masters_death(machine: Machine, follow: Follow) -> None:
    up = machine.up(manifest("followed", {"worker": ticking(PAUSE="0.1")}))
    machine.await_training("followed", nodes=1)
    logs = follow("logs", "followed", "-f")
    os.kill(machine.master_pid(), signal.SIGKILL)
    wait_for(lambda: machine.view("followed").get("training"), "the master's return")
    step = machine.nodes("followed")[0]["step"] or 0
    wait_for(lambda: (machine.nodes("followed")[0]["step"] or 0) > step + 20, "more steps")
    up.signal(signal.SIGINT)
    up.wait()
    logs.wait()
    steps = [int(number) for number in re.findall(r"\] step (\d+) of rank 0", logs.output)]
    assert steps == list(range(len(steps))), "each line once"
    assert steps[-1] > step + 20
