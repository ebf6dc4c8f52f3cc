"""docs/pods.md, row by row: the two functions decide what is documented there."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from resile.control.observed import ObservedNode
from resile.control.pod_outcome import MachineState, PodCondition, PodSummary, observe_pod, one_line
from resile.control.relaunch import (
    EndedNode,
    RankOutcome,
    RelaunchDecision,
    SpentBudget,
    decide_relaunch,
)
from resile.job.exits import ExitCause, NodeExit, classify
from resile.job.node import Node, NodePhase
from resile.job.spec.job import JobSpec
from resile.job.spec.role import ResourceSpec, RestartPolicy, RoleSpec
from resile.job.status import NodeStatus
from tests.unit.control.builders import at

NODE = Node(role="worker", rank=1, id=7, name="j-worker-7")
TABLE = Path(__file__).parents[3] / "docs" / "pods.md"


class Row(NamedTuple):
    said: str
    cause: str
    another: str
    budget: str
    memory: str
    sentence: str


def rows() -> list[Row]:
    lines = [line for line in TABLE.read_text().splitlines() if line.startswith("| ")]
    return [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines[1:]]


def facts_of(said: str) -> PodSummary:
    """The pod described by a cell of the first column."""
    code = re.search(r"exit code (\d+)", said)
    reason = re.search(r"reason (\w+)", said)
    container = re.search(r"container (\w+)", said)
    waiting = re.search(r"waiting, (\w+)", said)
    target = re.search(r"DisruptionTarget (\w+)", said)
    conditions = {}
    if target:
        conditions["DisruptionTarget"] = PodCondition("True", target[1])
    if "not scheduled" in said:
        conditions["PodScheduled"] = PodCondition(
            "False", "Unschedulable", "0/2 nodes are available"
        )
    machine = MachineState.READY
    if "unknown" in said:
        machine = MachineState.UNKNOWN
    elif "machine is gone" in said:
        machine = MachineState.GONE
    elif "not ready" in said:
        machine = MachineState.NOT_READY
    terminated = container[1] if container else ("Error" if code else "")
    number = int(code[1]) if code else (137 if terminated == "OOMKilled" else None)
    failed = bool(reason) or (bool(terminated) and number != 0)
    phase = "Failed" if failed else "Succeeded" if "Succeeded" in said else "Running"
    sidecar_running = "a sidecar still runs" in said
    if sidecar_running:
        phase = "Running"
    if waiting or "not scheduled" in said:
        phase = "Pending"
    deleted = "being deleted" in said or "deleted it" in said or bool(target)
    return PodSummary(
        node=NODE,
        phase=phase,
        reason=reason[1] if reason else "",
        conditions=conditions,
        deletion_asked_at=at(60) if deleted else None,
        waiting=waiting[1] if waiting else "",
        terminated=terminated,
        exit_code=number,
        host="node-a",
        ended_at=at(59 if "before" in said else 61) if terminated else None,
        machine=machine,
        sidecar_running=sidecar_running,
    )


def observed(said: str) -> ObservedNode:
    if said == "the record is gone":
        end = NodeExit(reason=ExitCause.DELETED.value)
        return ObservedNode(node=NODE, phase=NodePhase.FAILED, exit=end)
    return observe_pod(
        facts_of(said), stop_requested="by us" in said, reachable="its agent answers" in said
    )


def fate_of(said: str, end: NodeExit) -> RelaunchDecision:
    limit = re.search(r"limit (\w+)", said)
    policy = re.search(r"restartPolicy (\w+)", said)
    role = RoleSpec(
        script="train.py",
        resources=ResourceSpec(limits={"memory": limit[1]} if limit else {}),
        restart_policy=RestartPolicy(policy[1]) if policy else RestartPolicy.ON_FAILURE,
    )
    rank = NodeStatus(role="worker", rank=1, phase=NodePhase.RUNNING, id=7, name=NODE.name)
    ended = EndedNode(role="worker", rank=rank, end=end, ran_for=timedelta(hours=1))
    return decide_relaunch(
        JobSpec(roles={"worker": role}), ended, spent=SpentBudget(by_role=0, by_job=0)
    )


@pytest.mark.parametrize(
    "row", [r for r in rows() if r.cause and "API server" not in r.said], ids=str
)
def test_an_end_has_the_cause_the_fate_and_the_sentence_of_its_row(row: Row) -> None:
    found = observed(row.said)
    assert found.exit is not None
    assert not found.live
    assert classify(found.exit).value == row.cause
    fate = fate_of(row.said, found.exit)
    again = fate.outcome is RankOutcome.RELAUNCH
    assert again == (row.another == "yes")
    assert fate.spends == (row.budget == "spent")
    assert (fate.memory or "") == row.memory
    assert row.sentence in fate.sentence


@pytest.mark.parametrize(
    "row", [r for r in rows() if not r.cause and "API server" not in r.said], ids=str
)
def test_a_pod_that_still_counts_is_live_and_says_what_it_waits_for(row: Row) -> None:
    found = observed(row.said)
    assert found.live
    assert row.sentence in found.message


def test_the_table_has_the_rows_that_users_were_promised() -> None:
    said = " ".join(row.said for row in rows())
    for word in ("OOMKilled", "Evicted", "Preempt", "deleted", "unknown", "Admission", "ImagePull"):
        assert word in said
    assert len(rows()) > 35


def test_a_pod_deleted_by_us_is_stopping_until_it_is_gone() -> None:
    found = observed("being deleted, by us")
    assert found.live
    assert found.stopping


@pytest.mark.parametrize(
    ("ended", "cause"),
    [
        (59, ExitCause.COMPLETED),
        (60, ExitCause.DELETED),
        (61, ExitCause.DELETED),
        (None, ExitCause.DELETED),
    ],
)
def test_a_program_has_completed_only_if_it_ended_before_its_deletion_was_asked_for(
    ended: float | None, cause: ExitCause
) -> None:
    facts = replace(
        facts_of("phase Succeeded, exit code 0"),
        deletion_asked_at=at(60),
        ended_at=None if ended is None else at(ended),
    )
    assert cause_of(facts) is cause
    assert cause_of(facts, stop_requested=True) is ExitCause.COMPLETED
    assert cause_of(replace(facts, exit_code=None, terminated="")) is cause


@pytest.mark.parametrize(
    ("change", "lingers"),
    [
        ({}, True),
        ({"phase": "Pending"}, True),
        ({"phase": "Succeeded"}, False),
        ({"phase": "Failed"}, False),
        ({"sidecar_running": False}, False),
        ({"terminated": "", "exit_code": None, "ended_at": None}, False),
        ({"machine": MachineState.GONE}, False),
    ],
)
def test_a_node_lingers_while_a_sidecar_outlives_its_program(
    change: dict[str, Any], lingers: bool
) -> None:
    facts = replace(facts_of("exit code 0, a sidecar still runs"), **change)
    found = observe_pod(facts, stop_requested=False)
    assert found.lingers == lingers
    assert not found.stopping
    told = observe_pod(replace(facts, deletion_asked_at=at(99)), stop_requested=True)
    assert told.stopping, "also of one of which nothing but a record is left"


LONG = f"Traceback (most recent call last):\n{'x ' * 2000}\nValueError: no such file"


def test_of_a_message_that_is_too_long_the_beginning_and_the_end_are_kept() -> None:
    told = one_line(LONG)
    assert len(told) == 300
    assert told.startswith("Traceback (most recent call last): x")
    assert told.endswith("x ValueError: no such file")
    assert one_line("as short\n as this ") == "as short as this"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("exit code 3", {"terminated_message": LONG}),
        ("reason Evicted", {"message": LONG}),
        ("being deleted", {"message": LONG}),
        ("waiting, ImagePullBackOff", {"waiting_message": LONG}),
        ("not scheduled", {"conditions": {"PodScheduled": PodCondition("False", "", LONG)}}),
    ],
)
def test_nothing_that_a_pod_says_is_told_at_any_length(said: str, words: dict[str, Any]) -> None:
    found = observe_pod(replace(facts_of(said), **words), stop_requested=False)
    told = found.exit.message if found.exit is not None else found.message
    assert one_line(LONG) in told
    assert len(told) < 400


def cause_of(facts: PodSummary, *, stop_requested: bool = False) -> ExitCause:
    end = observe_pod(facts, stop_requested=stop_requested).exit
    assert end is not None
    return classify(end)


@pytest.mark.parametrize(
    ("said", "explained"),
    [("exit code 3", True), ("exit code 127", True), ("exit code 80 (ours: drained)", False)],
)
def test_a_programs_last_words_are_told_where_they_explain_its_end(
    said: str, explained: bool
) -> None:
    facts = replace(facts_of(said), terminated_message="the script x.py does not exist")
    found = observe_pod(facts, stop_requested=False)
    assert found.exit is not None
    assert ("does not exist" in found.exit.message) == explained
