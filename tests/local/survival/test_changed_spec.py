"""A job's manifest is changed while it trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from resile.job.manifest.parse import job_from_data
from resile.job.status import JobPhase, JobStatus
from resile.launch.master_process import KEPT_VARIABLE
from resile.platform.master_reports import directive_for
from tests.local.jobs import Job
from tests.local.wire.masters import TOKEN, running_master


def manifest(lease: float) -> dict[str, Any]:
    worker = {"replicas": {"min": 2, "max": 2}, "script": "train.py"}
    return {
        "apiVersion": "resile.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "changed"},
        "spec": {"roles": {"worker": worker}, "rendezvous": {"leaseSeconds": lease}},
    }


def test_a_shorter_lease_reaches_agents_before_it_is_held_against_them(
    job: Job, tmp_path: Path
) -> None:
    flags = ("--job", "changed", "--nnodes", "2", "--rdzv-conf", "lease=20")
    with running_master(tmp_path / "master", "--endpoint", job.endpoint, *flags) as master:
        for _ in range(2):
            job.start(
                *("--nnodes", "2", "--rdzv-id", "changed"),
                RESILE_TOKEN=TOKEN,
                **{KEPT_VARIABLE: "1"},
            )
        first = job.trains(world=2)
        told = directive_for(job_from_data(manifest(1.0)), JobStatus(phase=JobPhase.RUNNING))
        code, answer = master.ask("/v1/directive", method="PUT", body=msgspec.json.encode(told))
        assert code == 200, answer
        job.goes_on(steps=400)  # of two ranks, each of which takes 0.02 s: longer than two leases
        assert "lease=1.0" in master.log
        assert "no heartbeat" not in master.log
        assert job.round == first
