"""resile.submit and resile.wait."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
import yaml

import resile
from resile.job.errors import ManifestError
from resile.job.manifest import job_from_data
from resile.job.status import JobPhase
from resile.platform.kubernetes.errors import ConfigError
from resile.platform.kubernetes.kinds import ELASTIC_JOBS
from resile.platform.kubernetes.remote.errors import JobEnded, WaitedInVain
from tests.kube.apiserver import ApiServer
from tests.kube.cli.statuses import manifest, status, write_status
from tests.kube.operator.stage import Stage


async def test_a_manifest_is_a_file_a_text_data_or_a_job(
    stage: Stage, server: ApiServer, tmp_path: Path
) -> None:
    """Also in the thread of a running loop, as in a notebook."""
    namespace, kubeconfig = stage.client.namespace, server.kubeconfig()
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(manifest("digits")))
    for source in (
        path,
        str(path),
        path.read_text(),
        manifest("digits"),
        job_from_data(manifest("digits")),
    ):
        job = resile.submit(source, namespace=namespace, kubeconfig=kubeconfig)
        assert (job.name, job.namespace, job.phase()) == ("digits", namespace, "Created")
    assert len((await stage.client.list(ELASTIC_JOBS, namespace=namespace)).items) == 1
    elsewhere = manifest("digits")
    elsewhere["metadata"]["namespace"] = "elsewhere"
    with pytest.raises(ManifestError, match="is elsewhere, but namespace"):
        resile.submit(elsewhere, namespace=namespace, kubeconfig=kubeconfig)


async def test_mistakes_are_exceptions(stage: Stage, server: ApiServer) -> None:
    with pytest.raises(ManifestError, match="image"):
        resile.submit(manifest("digits", roles={"worker": {"script": "x.py"}}))
    with pytest.raises(ConfigError, match="has no context 'x'"):
        resile.submit(manifest("digits"), context="x", kubeconfig=server.kubeconfig())


async def test_a_job_is_waited_for(stage: Stage, server: ApiServer) -> None:
    job = resile.submit(
        manifest("digits"), namespace=stage.client.namespace, kubeconfig=server.kubeconfig()
    )
    with pytest.raises(TimeoutError, match="the operator has not looked at it yet"):
        resile.wait(job, until="running", timeout=0)
    assert issubclass(WaitedInVain, TimeoutError)
    raw = await stage.job("digits")
    running = asyncio.create_task(asyncio.to_thread(resile.wait, job, until="running"))
    await write_status(stage.client, raw, status("digits"))
    picture = await running
    assert (picture.phase, picture.status and picture.status.step) == ("Running", 70)
    finished = asyncio.create_task(asyncio.to_thread(resile.wait, job, timeout=60))
    await write_status(stage.client, raw, status("digits", JobPhase.FAILED))
    assert (await finished).phase == "Failed"
    with pytest.raises(JobEnded, match="is over"):
        resile.wait(job, until="running")
    job.delete()
    with pytest.raises(ValueError, match="'running' or 'finished'"):
        resile.wait(job, until="gone")  # type: ignore[arg-type]


async def test_a_job_that_is_deleted_is_not_waited_for(stage: Stage, server: ApiServer) -> None:
    job = resile.submit(
        manifest("digits"), namespace=stage.client.namespace, kubeconfig=server.kubeconfig()
    )
    threading.Timer(0.5, job.delete).start()
    with pytest.raises(JobEnded, match="was deleted"):
        await asyncio.to_thread(resile.wait, job)
