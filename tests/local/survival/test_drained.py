"""The machine with the master and all workers is drained: all get the signal at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from resile.launch.master_process import KEPT_VARIABLE
from tests.local.jobs import NodeProcess
from tests.local.training import ENDLESS, Trained
from tests.local.wire.masters import TOKEN, MasterProcess, running_master

UNHURRIED = ("--rdzv-conf", "handover_timeout=60")
"""A machine that runs other tests in parallel may take long to save."""


@contextmanager
def master_of(trained: Trained, folder: Path, *flags: str) -> Iterator[MasterProcess]:
    """A master that is restarted only by the test, with an empty store."""
    where = ("--endpoint", trained.endpoint, "--store", str(folder / "store.db"))
    with running_master(folder, *where, "--job", "drained", "--nnodes", "2", *flags) as master:
        yield master


def start_nodes(trained: Trained, *, after: int) -> None:
    """Start two nodes with ids from their platform."""
    for rank in range(2):
        trained.train(
            *("--nnodes", "2", "--rdzv-id", "drained", "--node-rank", str(rank)),
            nproc=1,
            steps=ENDLESS,
            RESILE_TOKEN=TOKEN,
            RESILE_NODE_ID=str(after + rank),
            **{KEPT_VARIABLE: "1"},
        )


@pytest.mark.parametrize("first", ["master", "nodes"])
def test_no_step_is_lost_when_all_are_told_to_go(
    trained: Trained, tmp_path: Path, first: str
) -> None:
    with master_of(trained, tmp_path / "first", *UNHURRIED) as master:
        start_nodes(trained, after=0)
        before = trained.trains(world=2)
        told = [master.process.send_signal, *(node.signal for node in trained.nodes)]
        for tell in told if first == "master" else reversed(told):
            tell(signal.SIGTERM)
        assert [node.wait() for node in trained.nodes] == [80, 80]
        assert master.process.wait() == 0
    trained.nodes.clear()
    with master_of(trained, tmp_path / "second", "--after-round", str(before)):
        start_nodes(trained, after=2)
        assert trained.trains(world=2, after=before) > before
        trained.finish()
    assert trained.lost_steps() == []


def test_no_step_is_lost_when_neighbours_leave_together(trained: Trained) -> None:
    for _ in range(3):
        trained.train("--nnodes", "1:3", *UNHURRIED, nproc=1, steps=ENDLESS)
    first = trained.trains(world=3)
    trained.goes_on()
    host = next(node for node in trained.nodes if trained.master_pids()[0] in children(node))
    leaving = [node for node in trained.nodes if node is not host]
    for node in leaving:
        node.signal(signal.SIGTERM)
    trained.trains(world=1, after=first)
    assert [node.wait() for node in leaving] == [80, 80]
    trained.finish()
    assert trained.lost_steps() == []


def children(node: NodeProcess) -> set[int]:
    return {process.pid for process in node.family()}


def test_no_step_is_lost_without_storage_when_a_node_of_several_workers_leaves(
    trained: Trained,
) -> None:
    for _ in range(2):
        trained.train(*("--nnodes", "1:2", *UNHURRIED), steps=ENDLESS, CHECKPOINTS="", EVERY="1")
    first = trained.trains(world=4)
    trained.goes_on()
    host = next(node for node in trained.nodes if trained.master_pids()[0] in children(node))
    (leaving,) = [node for node in trained.nodes if node is not host]
    leaving.signal(signal.SIGTERM)
    assert leaving.wait() == 80
    trained.trains(world=2, after=first)
    trained.finish()
    assert trained.lost_steps() == []
