"""A status as returned by the API server, whoever wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from resile.job.status import JobPhase, JobStatus
from resile.operator.reconciler import status_of


def job(status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "digits"}, "status": status}


@pytest.mark.parametrize("status", [None, {}])
def test_a_job_that_nobody_looked_at_has_an_empty_one(status: Any) -> None:
    assert status_of(job(status)) == JobStatus()


def test_what_a_newer_operator_added_does_not_make_a_job_begin_again() -> None:
    written = {
        "phase": "Succeeded",
        "completionTime": "2030-01-01T00:00:00Z",
        "nextId": 7,
        "nodes": [{"role": "worker", "rank": 0, "phase": "Hibernating"}],
    }
    found = status_of(job(written))
    assert found.phase is JobPhase.SUCCEEDED
    assert found.completion_time is not None
    assert found.next_id == 7
    assert found.nodes == ()
