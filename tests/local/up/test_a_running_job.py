"""The commands from another terminal, on a running job that they only read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.local.commands import wait_for
from tests.local.up.ups import Machine, manifest, ticking


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine on which a job called ``seen`` trains with two nodes, of one to three."""
    made = Machine(tmp_path_factory.mktemp("machine"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RESILE_HOME", str(made.home))
        try:
            replicas = {"min": 1, "max": 3, "wanted": 2}
            made.up(manifest("seen", {"worker": ticking(replicas=replicas, PAUSE="0.1")}))
            made.await_training("seen", nodes=2)
            yield made
        finally:
            made.close()


def test_it_is_listed(machine: Machine) -> None:
    (row,) = json.loads(machine.says("jobs", "-o", "json"))
    assert (row["phase"], row["ready"], row["wanted"]) == ("Running", 2, 2)
    assert row["step"] is not None
    assert machine.says("jobs").splitlines()[0].split() == [
        *("NAME", "PHASE", "NODES", "RESTARTS", "STEP", "AGE")
    ]


def test_it_is_described(machine: Machine) -> None:
    described = machine.says("describe", "seen")
    for fact in ("Running: 2 of 2 nodes are running", "round 1 (running), 2 workers, step"):
        assert fact in described
    for section in ("Roles", "Nodes", "Conditions", "Events (the last"):
        assert f"\n{section}" in described
    assert "1..3" in described
    far = re.compile(r"step \d+ of 1000000 \(0%\), [\d.]+ steps/s, \S+ left, loss [\d.e-]+\n")
    wait_for(lambda: far.search(machine.says("describe", "seen")), "speed, time left and loss")


def test_it_is_described_for_programs(machine: Machine) -> None:
    described = json.loads(machine.says("describe", "seen", "-o", "json", "--events", "2"))
    assert (described["name"], described["phase"]) == ("seen", "Running")
    assert (described["platform"], described["namespace"]) == ("local", None)
    assert described["training"]["totalSteps"] == 1000000
    assert [len(node["workerPids"]) for node in described["nodes"]] == [1, 1]
    assert len(described["events"]) == 2
    names = [node["name"] for node in described["nodes"]]
    shown = machine.says("describe", "seen").splitlines()
    for name, node in zip(names, described["nodes"], strict=True):
        (line,) = [line for line in shown if line.startswith(name)]
        assert str(node["workerPids"][0]) in line.split()


def test_it_is_printed_whole_with_what_its_master_saw(machine: Machine) -> None:
    assert "phase: Running" in machine.says("get", "seen")
    status = json.loads(machine.says("get", "seen", "-o", "json"))["status"]
    assert (status["phase"], status["round"], status["worldSize"]) == ("Running", 1, 2)
    assert status["training"]["phase"] == "running"
    assert sorted(status["training"]["nodes"]) == ["seen-worker-0", "seen-worker-1"]


def test_what_its_nodes_print_is_shown(machine: Machine) -> None:
    one = machine.says("logs", "seen", "seen-worker-1")
    assert "step 0 of rank 1" in one
    assert "[seen-worker-1]" not in one, "one log needs no names"
    both = machine.says("logs", "seen", "worker")
    assert "[seen-worker-0] [rank0] step 0 of rank 0" in both
    assert "has no node or role 'trainer'" in machine.refuses("logs", "seen", "trainer")


def test_what_its_master_prints_is_shown(machine: Machine) -> None:
    said = machine.says("logs", "seen", "--master", "--tail", "2").splitlines()
    assert len(said) == 2
    assert "RoundRunning: round 1: running with 2 nodes, 2 workers" in said[1]
    assert not said[1].startswith("["), "one log needs no names"
    assert machine.says("logs", "seen", "--master", "--prefix").startswith("[seen-master] ")
    assert "remove --all, --rank and node names" in machine.refuses("logs", "seen", "--master", "x")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("worker=9",), "role worker may have 1 to 3 nodes, not 9"),
        (("worker=0",), "role worker may have 1 to 3 nodes, not 0"),
        (("trainer=2",), "there is no role 'trainer'; there are worker"),
        (("worker=many",), "'many' is not a number of nodes"),
        (("worker=-1",), "'-1' is not a number of nodes"),
        (("worker",), "write ROLE=N"),
        (("worker=1", "worker=2"), "worker is given twice"),
    ],
)
def test_a_size_that_it_cannot_have_is_refused_and_not_kept(
    machine: Machine, words: tuple[str, ...], complaint: str
) -> None:
    before = machine.view("seen")["requestedSizes"]
    assert complaint in machine.refuses("scale", "seen", *words)
    assert machine.view("seen")["requestedSizes"] == before


def test_a_size_that_it_has_may_be_asked_for(machine: Machine) -> None:
    assert machine.says("scale", "seen", "worker=2") == "worker: 2 nodes\n"


def test_a_name_that_is_close_is_suggested(machine: Machine) -> None:
    assert "Did you mean 'seen'?" in machine.refuses("describe", "sen")
