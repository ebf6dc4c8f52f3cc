"""Explanations of why a job's logs are empty."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from resile.cli.output.explain import explain_no_output
from resile.job.node import NodePhase
from resile.job.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    JobPhase,
    JobStatus,
    NodeStatus,
)
from resile.job.view import combine

RUNNING, PENDING = NodePhase.RUNNING, NodePhase.PENDING


def status(
    phase: JobPhase, *nodes: tuple[NodePhase, str], says: tuple[ConditionType, str] | None = None
) -> JobStatus:
    conditions: tuple[Condition, ...] = ()
    if says is not None:
        kind, message = says
        holds = ConditionStatus.FALSE if kind is ConditionType.CREATED else ConditionStatus.TRUE
        now = datetime.now(timezone.utc)
        conditions = (
            Condition(
                type=kind, status=holds, reason="R", message=message, last_transition_time=now
            ),
        )
    ranks = tuple(
        NodeStatus(role="worker", rank=rank, phase=one, name=f"digits-worker-{rank}", message=why)
        for rank, (one, why) in enumerate(nodes)
    )
    return JobStatus(phase=phase, nodes=ranks, conditions=conditions)


@pytest.mark.parametrize(
    ("written", "kept", "told"),
    [
        (
            status(JobPhase.PENDING, (RUNNING, ""), (PENDING, "its image cannot be pulled")),
            True,
            "digits-worker-1 is pending: its image cannot be pulled",
        ),
        (
            status(JobPhase.RESTARTING, (PENDING, ""), (NodePhase.FAILED, "no such command")),
            True,
            "digits-worker-1 has failed: no such command",
        ),
        (status(JobPhase.PENDING, (PENDING, "")), False, "digits-worker-0 is pending"),
        (status(JobPhase.RUNNING, (RUNNING, "")), True, "nothing has been printed yet"),
        (
            status(JobPhase.SUSPENDED, says=(ConditionType.SUSPENDED, "spec.suspend is true")),
            False,
            "the job is suspended: spec.suspend is true",
        ),
        (
            status(JobPhase.FAILED, says=(ConditionType.FAILED, "rank 0 was given up")),
            False,
            "the job is over (Failed): rank 0 was given up; the logs were removed with its nodes",
        ),
        (
            status(JobPhase.FAILED, says=(ConditionType.FAILED, "rank 0 was given up")),
            True,
            "the job is over (Failed): rank 0 was given up",
        ),
    ],
)
def test_why(written: JobStatus, kept: bool, told: str) -> None:
    assert why(written, kept=kept) == told


def why(written: JobStatus, **more: Any) -> str:
    view = combine("digits", status=written, trainings={}, now=0.0)
    return explain_no_output(view, wanted=lambda _node: True, phase=written.phase.value, **more)
