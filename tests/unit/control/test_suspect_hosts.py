"""Machines on which nodes died: they are avoided while there is an alternative."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from resile.control.actions import StartNode, StopNode
from resile.control.start_requests import unseen_start_requests
from resile.job.exits import NodeExit
from resile.job.node import Node, NodePhase
from resile.job.status import JobPhase
from tests.unit.control.builders import job
from tests.unit.control.simulation import SimulatedPlatform, running

LOST = NodeExit(reason="NodeLost")


def cornered(count: int = 1) -> SimulatedPlatform:
    """A job of ``count`` nodes that were all lost on the only machine."""
    sim = SimulatedPlatform(job({"worker": {"replicas": count}}), machines=1)
    sim.settle()
    for rank in range(count):
        sim.end(sim.node("worker", rank), LOST)
    sim.settle()
    assert sim.started[-1].avoid == ("machine-0",)
    return sim


def test_a_node_goes_elsewhere_after_its_machine_was_lost() -> None:
    sim = SimulatedPlatform(job({"worker": {"replicas": 1}}), machines=2)
    sim.settle()
    sim.end(sim.node("worker", 0), LOST)
    sim.settle()
    sim.look()
    assert sim.rank("worker", 0).host == "machine-1"
    sim.wait(600)
    assert not sim.look().actions


def test_with_nowhere_else_to_go_a_machine_is_forgiven_and_the_node_replaced_for_nothing() -> None:
    sim = cornered()
    spent, waiting = sim.status.spent, sim.node("worker", 0)
    sim.wait(59)
    decision = sim.look()
    assert not decision.actions
    assert decision.requeue_after == timedelta(seconds=1)
    sim.wait(1)
    decision = sim.look()
    assert [(type(action), action.node) for action in decision.actions] == [(StopNode, waiting)]
    assert [note.sentence for note in decision.notes] == [
        "train-worker-1: no other machine had room within 60 s, so machine-0 may be used again; "
        "cordon a machine that is broken"
    ]
    assert sim.status.troubled_hosts == ()
    assert not sim.look().notes
    sim.let_stop()
    sim.settle()
    assert sim.started[-1].node == Node(role="worker", rank=0, id=2, name="train-worker-2")
    assert sim.started[-1].avoid == ()
    assert sim.rank("worker", 0).host == "machine-0"
    assert sim.status.phase is JobPhase.RUNNING
    assert sim.status.spent == spent
    assert sim.rank("worker", 0).restarts == 2


def test_all_nodes_with_nowhere_to_go_are_told_of_once() -> None:
    sim = cornered(3)
    sim.wait(60)
    decision = sim.look()
    assert {action.node.rank for action in decision.actions} == {0, 1, 2}
    assert [note.sentence.split(":")[0] for note in decision.notes] == ["train-worker-3 and 2 more"]


def test_a_machine_that_was_forgotten_meanwhile_does_not_keep_a_node_waiting_for_ever() -> None:
    sim = SimulatedPlatform(job({"worker": {"replicas": {"min": 1, "max": 2}}}), machines=1)
    sim.settle()
    sim.end(sim.node("worker", 0), LOST)
    sim.look(carry_out=False)
    sim.wait(3590)  # what was asked for got lost, and is asked for again just before the hour ends
    sim.settle()
    assert sim.started[-1].avoid == ("machine-0",)
    sim.wait(59)
    sim.look()
    assert sim.status.troubled_hosts == ()
    sim.wait(1)
    sim.look()
    sim.let_stop()
    sim.settle()
    assert sim.rank("worker", 0).phase is NodePhase.RUNNING


def test_without_room_anywhere_a_node_that_avoids_no_machine_just_waits() -> None:
    sim = running(room=1)
    sim.wait(3600)
    assert not sim.look().actions
    assert sim.status.decisions == ()


def test_an_order_that_got_lost_is_given_again_as_it_was() -> None:
    sim = SimulatedPlatform(job({"worker": {}}), machines=2)
    sim.settle()
    sim.end(sim.node("worker", 0), LOST)
    (order,) = sim.look(carry_out=False).actions
    assert isinstance(order, StartNode)
    assert order.avoid == ("machine-0",)
    forgetful = replace(sim.status, troubled_hosts=())
    assert unseen_start_requests(sim.job, forgetful, sim.nodes.values()) == (order,)
