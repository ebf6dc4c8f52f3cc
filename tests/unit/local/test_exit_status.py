"""The report on a node, from the exits of its processes."""

from __future__ import annotations

import pytest

from resile.job.exits import ExitCause, NodeExit, classify
from resile.job.node import NodePhase
from resile.local.node_record import NodeLeaving, node_exit, phase_of
from resile.local.supervisor.process import End

PREEMPTED = NodeLeaving(ExitCause.PREEMPTED, "to make room for another")
TOO_MUCH = "the kernel killed it at its limit of 1Gi"


def reported(
    end: End, *, leaving: NodeLeaving | None = None, out_of_memory: str = ""
) -> tuple[NodePhase, ExitCause]:
    found = node_exit(end, leaving=leaving, out_of_memory=out_of_memory)
    return phase_of(found), classify(found)


def test_code_0_is_success() -> None:
    assert reported(End(code=0)) == (NodePhase.SUCCEEDED, ExitCause.COMPLETED)


def test_another_code_and_a_signal_are_failures_of_their_kind() -> None:
    assert node_exit(End(code=3), leaving=None, out_of_memory="") == NodeExit(code=3)
    assert node_exit(End(code=-9), leaving=None, out_of_memory="") == NodeExit(signal=9)
    assert reported(End(code=3)) == (NodePhase.FAILED, ExitCause.ERROR)
    assert reported(End(code=-9)) == (NodePhase.FAILED, ExitCause.SIGNAL)


@pytest.mark.parametrize("code", [0, 80, 1, -15, -9])
def test_a_preempted_node_was_preempted_whatever_it_replied(code: int) -> None:
    end = End(code=code, stop_ordered=True)
    assert reported(end, leaving=PREEMPTED) == (NodePhase.FAILED, ExitCause.PREEMPTED)


def test_a_node_that_completed_before_it_was_told_to_go_has_completed() -> None:
    end = End(code=0, stop_ordered=False)
    assert reported(end, leaving=PREEMPTED) == (NodePhase.SUCCEEDED, ExitCause.COMPLETED)


def test_out_of_memory_is_a_cause_of_its_own() -> None:
    found = node_exit(End(code=-9), leaving=None, out_of_memory=TOO_MUCH)
    assert found.oom
    assert found.message == TOO_MUCH
    assert classify(found) is ExitCause.OUT_OF_MEMORY


def test_a_node_that_completed_without_its_killed_helper_has_completed() -> None:
    assert reported(End(code=0), out_of_memory=TOO_MUCH)[0] is NodePhase.SUCCEEDED


def test_a_program_that_could_not_be_started_never_was() -> None:
    found = node_exit(End(refused="cannot run x"), leaving=None, out_of_memory="")
    assert classify(found) is ExitCause.NEVER_STARTED
    assert found.message == "cannot run x"
    assert phase_of(found) is NodePhase.FAILED
