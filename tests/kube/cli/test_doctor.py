"""`resile doctor` on a cluster: what is missing there, for an administrator and for a guest."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from resile.client.cluster.diagnosis import diagnose_cluster
from resile.kube.client import KubeClient
from resile.kube.resources import CUSTOM_RESOURCES, ELASTIC_JOBS, LEASES
from resile.operator.build.labels import OPERATOR_LEASE
from resile.operator.crd import custom_resource
from resile.platform.finding import Finding, Level
from tests.kube.apiserver import GUEST, ApiServer, running
from tests.kube.cli.console import Console
from tests.kube.operator.stage import eventually

NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running(tmp_path_factory.mktemp("kube"), authorization="RBAC") as server:
        yield server


async def findings(server: ApiServer, user: str | None = None) -> dict[str, Finding]:
    """By check."""
    file = server.kubeconfig(user) if user else server.kubeconfig()
    async with KubeClient.connect(kubeconfig=file) as client:
        return {one.check: one for one in await diagnose_cluster(client, now=NOW)}


async def lease(client: KubeClient, *, renewed: datetime) -> None:
    spec = {"holderIdentity": "pod-1", "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    await client.apply(LEASES, {"metadata": {"name": OPERATOR_LEASE}, "spec": spec})


async def test_it_says_step_by_step_what_is_missing(server: ApiServer) -> None:
    nothing = await findings(server)
    assert nothing["API server"].level is Level.OK
    assert nothing["API server"].found.startswith("v1.")
    assert nothing["ElasticJob"].level is Level.ERROR
    assert "install Resile" in nothing["ElasticJob"].advice
    assert "operator" not in nothing

    async with KubeClient.connect(kubeconfig=server.kubeconfig()) as client:
        older = custom_resource()
        schema = older["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        del schema["properties"]["spec"]["properties"]["roles"]
        await client.create(CUSTOM_RESOURCES, older)

        async def served() -> bool:
            await client.list(ELASTIC_JOBS)
            return True

        await eventually(served, "the cluster to know ElasticJobs")
        outdated = (await findings(server))["ElasticJob"]
        assert outdated.level is Level.WARNING
        assert ".spec.roles" in outdated.advice

        await client.apply(CUSTOM_RESOURCES, custom_resource())
        without = await findings(server)
        assert without["ElasticJob"].level is Level.OK
        assert without["operator"].level is Level.WARNING
        assert without["your rights"].level is Level.OK

        await lease(client, renewed=NOW - timedelta(hours=1))
        assert (await findings(server))["operator"].found == "its lease has expired"

        await lease(client, renewed=NOW - timedelta(seconds=2))
        assert {one.level for one in (await findings(server)).values()} == {Level.OK}

    guest = await findings(server, GUEST)
    assert guest["ElasticJob"].level is Level.NOTE
    assert guest["operator"].level is Level.NOTE
    assert guest["your rights"].level is Level.WARNING
    assert "submit jobs (create elasticjobs)" in guest["your rights"].advice


async def test_a_cluster_that_does_not_answer_is_an_error(
    server: ApiServer, tmp_path: Path
) -> None:
    config = tmp_path / "kubeconfig"
    told = Path(server.kubeconfig()).read_text()
    config.write_text(told.replace(server.url, "https://127.0.0.1:1"))
    done = await Console(tmp_path, kubeconfig=str(config)).run("doctor", "-o", "json")
    assert done.returncode == 1
    (found,) = [one for one in json.loads(done.stdout) if one["area"] == "cluster"]
    assert found["check"] == "API server"
    assert found["level"] == "error"
