"""A status in JSON."""

from __future__ import annotations

import json

from resile.job.exits import ExitCause
from resile.job.node import Node, NodePhase
from resile.job.spec.role import NodeResources
from resile.job.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    DecisionNote,
    JobPhase,
    JobStatus,
    NodeRequest,
    NodeStatus,
    RequestVerb,
    RoleStatus,
)
from tests.statuses import decode_status, encode_status
from tests.unit.control.builders import at

NODE = NodeStatus(
    role="worker",
    rank=1,
    phase=NodePhase.RUNNING,
    id=4,
    name="train-worker-4",
    host="here",
    resources=NodeResources(requests={"memory": "8Gi"}, limits={"memory": "8Gi"}),
    restarts=2,
    spent=1,
    memory="8Gi",
    last_end=ExitCause.OUT_OF_MEMORY,
    started_at=at(3),
    seen=True,
)
OLD = Node(role="worker", rank=1, id=1, name="train-worker-1")
FULL = JobStatus(
    phase=JobPhase.RUNNING,
    conditions=(
        Condition(
            type=ConditionType.RUNNING,
            status=ConditionStatus.TRUE,
            reason="JobRunning",
            message="2 of 2 nodes are running",
            last_transition_time=at(1.5),
        ),
    ),
    roles={"worker": RoleStatus(wanted=2, active=2, next_serial=5)},
    nodes=(NODE,),
    decisions=(DecisionNote(time=at(2), reason="NodeRelaunched", sentence="because"),),
    pending_requests=(NodeRequest(node=OLD, verb=RequestVerb.STOP, at=at(4)),),
    next_id=5,
    spent=1,
    start_time=at(0),
    ready="2/2",
    restarts=2,
    replicas=2,
    selector="resile.dev/job=train,resile.dev/role=worker",
    step=120,
    throughput="12.3 steps/s",
    round=3,
    world_size=4,
    observed_generation=5,
)


def test_a_status_reads_back_as_it_was() -> None:
    assert decode_status(encode_status(FULL)) == FULL


def test_names_are_camel_case_and_times_are_rfc_3339() -> None:
    data = json.loads(encode_status(FULL))
    assert data["conditions"][0] == {
        "type": "Running",
        "status": "True",
        "reason": "JobRunning",
        "message": "2 of 2 nodes are running",
        "lastTransitionTime": "2030-01-01T00:00:01.500000Z",
    }
    assert data["nodes"][0]["lastEnd"] == "OutOfMemory"
    assert data["startTime"] == "2030-01-01T00:00:00Z"
    assert data["nextId"] == 5
    assert data["worldSize"] == 4
    assert data["observedGeneration"] == 5


def test_what_a_newer_controller_wrote_is_let_through() -> None:
    assert decode_status('{"phase": "Failed", "news": 1}').finished


def test_a_fresh_status_is_short() -> None:
    assert encode_status(JobStatus()) == b"{}"
