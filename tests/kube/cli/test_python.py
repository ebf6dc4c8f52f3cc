"""resile.submit and resile.wait."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

import resile
from resile.client.errors import InvalidState, JobEnded, NoSuchJob, WaitTimeout
from resile.job.errors import ManifestError
from resile.job.manifest.parse import job_from_data
from resile.job.status import JobPhase
from resile.kube.errors import ConfigError
from resile.kube.resources import ELASTIC_JOBS
from tests.kube.apiserver import ApiServer
from tests.kube.cli.statuses import WORKER, create, manifest, status, write_status
from tests.kube.operator.stage import Stage

Where: TypeAlias = dict[str, Any]
"""Keyword arguments that select a cluster."""


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
    assert issubclass(WaitTimeout, TimeoutError)
    raw = await stage.job("digits")
    running = asyncio.create_task(asyncio.to_thread(resile.wait, job, until="running"))
    await write_status(stage.client, raw, status("digits"))
    view = await running
    assert (view.phase, view.status and view.status.step) == ("Running", 70)
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


async def test_a_job_that_was_changed_runs_when_the_operator_has_looked(
    stage: Stage, server: ApiServer
) -> None:
    where: Where = {"namespace": stage.client.namespace, "kubeconfig": server.kubeconfig()}
    resile.submit(manifest("digits"), **where)
    raw = await stage.job("digits")
    await write_status(stage.client, raw, status("digits", observed_generation=1))
    roles = {"worker": {**WORKER, "image": "train:next"}}
    job = resile.submit(manifest("digits", roles=roles), **where)
    with pytest.raises(WaitTimeout, match="the operator has not looked at the change yet"):
        resile.wait(job, until="running", timeout=0)
    await write_status(stage.client, raw, status("digits", observed_generation=2))
    assert resile.wait(job, until="running", timeout=0).phase == "Running"


async def test_a_job_is_waited_for_by_its_name(stage: Stage, server: ApiServer) -> None:
    where: Where = {"namespace": stage.client.namespace, "kubeconfig": server.kubeconfig()}
    await create(stage.client, manifest("digits"), status("digits", JobPhase.SUCCEEDED))
    assert resile.wait("digits", **where, context="test").phase == "Succeeded"
    with pytest.raises(NoSuchJob, match="Did you mean 'digits'"):
        resile.wait("digit", **where)
    job = resile.submit(manifest("digits"), **where)
    with pytest.raises(TypeError, match="only named"):
        resile.wait(job, namespace="elsewhere")


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
async def test_a_wait_ends_in_time_while_the_api_server_is_away(
    stage: Stage, server: ApiServer, *, named: bool, frozen: bool
) -> None:
    where: Where = {"namespace": stage.client.namespace, "kubeconfig": server.kubeconfig()}
    job = resile.submit(manifest("digits"), **where)
    wished: Where = {"timeout": 3.0, **(where if named else {})}
    with away(server, frozen=frozen):
        began = time.monotonic()
        with pytest.raises(WaitTimeout, match=r"not finished after 3 s .*answer"):
            resile.wait("digits" if named else job, **wished)
        took = time.monotonic() - began
    assert 2 < took < 6


@contextmanager
def away(server: ApiServer, *, frozen: bool) -> Iterator[None]:
    if frozen:
        with server.frozen():
            yield
        return
    server.stop()
    try:
        yield
    finally:
        server.start()


async def test_sizes_that_cannot_be_are_refused(stage: Stage, server: ApiServer) -> None:
    roles = {
        "worker": WORKER,
        "ps": {"image": "train:test", "command": ["sleep", "60"]},
        "judge": {
            "image": "train:test",
            "command": ["sleep", "60"],
            "replicas": {"min": 1, "max": 2},
        },
    }
    job = resile.submit(
        manifest("digits", roles=roles),
        namespace=stage.client.namespace,
        kubeconfig=server.kubeconfig(),
    )
    before = (await stage.job("digits"))["spec"]
    for sizes, complaint in (
        ({"trainer": 1}, "there is no role 'trainer'; there are judge, ps, worker"),
        ({"ps": 3}, "role ps has 1 node, always"),
        ({"worker": 9}, "role worker may have 1 to 4 nodes, not 9"),
        ({"worker": 3, "judge": 3}, "role judge may have 1 to 2 nodes, not 3"),
    ):
        with pytest.raises(InvalidState, match=complaint):
            job.scale(sizes)
    assert (await stage.job("digits"))["spec"] == before
    job.scale({"worker": 3, "judge": 2, "ps": 1})
    spec = (await stage.job("digits"))["spec"]
    assert (spec["replicas"], spec["roles"]["judge"]["replicas"]["wanted"]) == (3, 2)
