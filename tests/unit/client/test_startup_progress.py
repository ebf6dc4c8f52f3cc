"""Messages about the progress of a job's start."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from msgspec.structs import replace

from resile.client.cluster.job_object import view_of
from resile.client.cluster.startup_progress import StartupOutcome, is_training, startup_progress
from resile.job.node import NodePhase
from resile.job.status import (
    MASTER_UNAVAILABLE,
    Condition,
    ConditionStatus,
    ConditionType,
    JobPhase,
    JobStatus,
    NodeStatus,
    RoleStatus,
)
from resile.job.training import TrainingView
from resile.job.view import JobView

RUNS = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
TRAINING = {"image": "x", "script": "t.py"}


def drawn(status: JobStatus | None, role: dict[str, Any] | None = None, **spec: Any) -> JobView:
    import msgspec

    raw = {
        "apiVersion": "resile.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "digits", "uid": "u", "creationTimestamp": "2024-05-01T10:00:00Z"},
        "spec": {"roles": {"worker": role or TRAINING}, **spec},
        "status": msgspec.to_builtins(status) if status is not None else None,
    }
    return view_of(raw, now=0.0)


def master(**status: Any) -> list[dict[str, Any]]:
    containers = [{"name": "master"}]
    metadata = {"name": "digits-master-0"}
    return [{"metadata": metadata, "spec": {"containers": containers}, "status": status}]


def condition(kind: ConditionType, holds: ConditionStatus, message: str) -> Condition:
    now = datetime.now(timezone.utc)
    return Condition(
        type=kind, status=holds, reason="Because", message=message, last_transition_time=now
    )


def pending(message: str) -> JobStatus:
    node = NodeStatus(
        role="worker", rank=1, phase=NodePhase.PENDING, name="digits-worker-1", message=message
    )
    roles = {"worker": RoleStatus(wanted=2, active=1, pending=1)}
    return JobStatus(phase=JobPhase.PENDING, roles=roles, nodes=(node,))


def test_nobody_has_looked_yet() -> None:
    assert startup_progress(drawn(None)).lines == ("the operator has not looked at it yet",)


def test_what_is_waited_for_is_named() -> None:
    waiting = {"name": "master", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    pods = master(phase="Pending", containerStatuses=[waiting])
    first, second = startup_progress(drawn(pending("no room")), masters=pods).lines
    assert first.startswith("the master is being started: its image cannot be pulled")
    assert second == "1 of 2 nodes are running; digits-worker-1 is pending: no room"
    assert startup_progress(drawn(pending("no room")), masters=master(**RUNS)).lines == (second,)


def test_it_trains_when_a_round_has_formed_or_a_step_is_known() -> None:
    running = {"phase": JobPhase.RUNNING}
    assert not is_training(drawn(JobStatus(**running)))  # type: ignore[arg-type]
    formed = drawn(JobStatus(**running, round=1, world_size=4))  # type: ignore[arg-type]
    assert startup_progress(formed).lines == ("training: round 1, 4 workers",)
    stepping = drawn(JobStatus(**running, step=12))  # type: ignore[arg-type]
    assert startup_progress(stepping).lines == ("training: step 12",)
    assert startup_progress(stepping).outcome is StartupOutcome.TRAINS


def test_a_round_that_only_forms_is_no_training_yet() -> None:
    def status(phase: str) -> JobStatus:
        training = TrainingView(phase=phase)
        roles = {"worker": RoleStatus(wanted=1, active=1)}
        return JobStatus(
            phase=JobPhase.RUNNING, round=2, world_size=4, step=7, roles=roles, training=training
        )

    seen = startup_progress(drawn(status("forming")), masters=master(**RUNS))
    assert seen.outcome is None
    assert seen.lines == ("1 of 1 nodes are running", "round 2 is forming: 4 workers")
    for phase in ("gathering", "failed"):
        assert startup_progress(drawn(status(phase))).outcome is None
    assert startup_progress(drawn(status("running"))).outcome is StartupOutcome.TRAINS


def test_why_there_is_no_master_is_told() -> None:
    refusal = "pods is forbidden: exceeded quota: small; see 'kubectl'"
    waits = condition(ConditionType.RUNNING, ConditionStatus.FALSE, "0 of 2 nodes are running")
    why = condition(ConditionType.MASTER_READY, ConditionStatus.FALSE, refusal)
    why = replace(why, reason=MASTER_UNAVAILABLE)
    roles = {"worker": RoleStatus(wanted=2)}
    seen = drawn(JobStatus(phase=JobPhase.PENDING, roles=roles, conditions=(waits, why)))
    nodes = "0 of 2 nodes are running"
    assert startup_progress(seen).lines == (f"there is no master yet: {refusal}", nodes)
    assert startup_progress(seen, masters=None).lines == (f"there is no master: {refusal}", nodes)


def test_what_is_said_beside_the_head_count_is_told() -> None:
    said = "1 of 3 nodes are running; role worker is limited to 3: its max"
    why = condition(ConditionType.RUNNING, ConditionStatus.FALSE, said)
    roles = {"worker": RoleStatus(wanted=3, active=1)}
    seen = drawn(JobStatus(phase=JobPhase.PENDING, roles=roles, conditions=(why,)))
    assert startup_progress(seen, masters=master(**RUNS)).lines == (said,)


def test_a_job_of_plain_commands_has_no_round_to_form() -> None:
    plain = {"image": "x", "command": ["sleep", "1"]}
    status = JobStatus(phase=JobPhase.RUNNING, roles={"worker": RoleStatus(wanted=1, active=1)})
    assert startup_progress(drawn(status, plain)).lines == ("running: 1 of 1",)


def test_the_end_is_told_with_its_reason() -> None:
    why = condition(ConditionType.FAILED, ConditionStatus.TRUE, "worker rank 0 was given up")
    seen = startup_progress(drawn(JobStatus(phase=JobPhase.FAILED, conditions=(why,))))
    assert seen.lines == ("the job has failed: worker rank 0 was given up",)
    assert seen.outcome is StartupOutcome.FAILED
    why = condition(ConditionType.CREATED, ConditionStatus.FALSE, "spec.x: is wrong")
    seen = startup_progress(drawn(JobStatus(conditions=(why,))))
    assert (seen.lines, seen.outcome) == (
        ("the job has failed: spec.x: is wrong",),
        StartupOutcome.FAILED,
    )


def test_a_job_that_is_not_meant_to_run_ends_the_waiting() -> None:
    assert startup_progress(drawn(JobStatus(), suspend=True)).outcome is StartupOutcome.SUSPENDED
    seen = startup_progress(drawn(None, managedBy="kueue.x-k8s.io/multikueue"))
    assert seen.outcome is StartupOutcome.ELSEWHERE
    assert seen.lines == ("kueue.x-k8s.io/multikueue looks after it, not Resile's operator",)
