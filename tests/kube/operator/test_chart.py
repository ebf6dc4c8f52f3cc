"""The Helm chart on a real API server: install, upgrade, uninstall, and its permissions."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from resile.kube.resources import PODS
from resile.operator.build.labels import MASTER
from tests.kube.apiserver import ApiServer
from tests.kube.operator.audited import audited, requests
from tests.kube.operator.operators import OperatorProcess
from tests.kube.operator.stage import Stage, eventually
from tests.kube.operator.standin import StandIn
from tests.programs import KUBECTL
from tests.unit.deploy.chart import CHART, SYSTEM, Refused, helm

ACCOUNT = "resile-operator"
DEFINITION = "crd/elasticjobs.resile.dev"
INSTALL = ("install", "resile", str(CHART), "-n", SYSTEM, "--create-namespace")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with audited(tmp_path_factory.mktemp("kube")) as server:
        yield server


def kubectl(server: ApiServer, *words: str, stdin: str = "") -> str:
    whole = [KUBECTL, "--kubeconfig", server.kubeconfig(), *words]
    done = subprocess.run(whole, input=stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_can_be_installed_upgraded_and_taken_away(server: ApiServer) -> None:
    kubeconfig = server.kubeconfig()
    told = helm(*INSTALL, kubeconfig=kubeconfig)
    assert "looks after the ElasticJobs of all namespaces." in told
    assert f"kubectl -n {SYSTEM} rollout status deployment/resile-operator" in told
    kubectl(server, "wait", "--for=condition=Established", DEFINITION, "--timeout=30s")

    with pytest.raises(Refused, match="ClusterRole"):
        helm("install", "second", str(CHART), "-n", "default", kubeconfig=kubeconfig)

    shown = helm("show", "crds", str(CHART))
    kubectl(server, "apply", "-f", "-", stdin=shown)
    words = ("upgrade", "resile", str(CHART), "-n", SYSTEM, "--reset-then-reuse-values")
    helm(*words, "--set", "replicas=2", kubeconfig=kubeconfig)
    words = ("get", "deployment", "resile-operator", "-o", "jsonpath={.spec.replicas}")
    assert kubectl(server, "-n", SYSTEM, *words) == "2"

    helm("uninstall", "resile", "-n", SYSTEM, kubeconfig=kubeconfig)
    assert kubectl(server, "-n", SYSTEM, "get", "deployments,roles", "-o", "name") == ""
    assert kubectl(server, "get", DEFINITION, "-o", "name")


async def test_for_one_namespace_the_permissions_there_are_enough(
    server: ApiServer, stage: Stage, kubelets: StandIn, tmp_path: Path
) -> None:
    namespace = stage.client.namespace
    values = f"watchNamespace={namespace},image.tag=own"
    told = helm(*INSTALL, "--set", values, kubeconfig=server.kubeconfig())
    assert f"looks after the ElasticJobs of the namespace {namespace}." in told
    operator = OperatorProcess(
        as_the_account(server, tmp_path), tmp_path, *flags(server), image=None
    )
    try:
        operator.wait_until_it_leads()
        await stage.create("digits", {"replicas": 2}, ttlSecondsAfterFinished=1)
        await stage.has_nodes("digits", 2)
        await stage.has_phase("digits", "Running")
        (master,) = await stage.pods("digits", MASTER)
        assert master["spec"]["containers"][0]["image"] == "resile:own"
        await stage.client.delete(PODS, "digits-worker-1")

        async def replaced() -> bool:
            return sorted(await stage.nodes("digits")) == [0, 2]

        await eventually(replaced, "the deleted node to be replaced")
        for pod in await stage.pods("digits"):
            await kubelets.end(pod, 0, "Completed")

        async def gone() -> bool:
            words = ("-n", namespace, "get", "elasticjobs", "-o", "name")
            return kubectl(server, *words) == ""

        await eventually(gone, "the job to be deleted")
    finally:
        operator.end()
    asked = [one for one in requests(server) if one["user"]["username"].endswith(f":{ACCOUNT}")]
    assert len(asked) > 10
    refused = [one for one in asked if one.get("responseStatus", {}).get("code") == 403]
    assert [f"{one['verb']} {one['requestURI']}" for one in refused] == []
    assert "Traceback" not in operator.text()


def as_the_account(server: ApiServer, folder: Path) -> str:
    """A kubeconfig for the service account of the operator's pod."""
    config: dict[str, Any] = yaml.safe_load(Path(server.kubeconfig(namespace=SYSTEM)).read_text())
    token = kubectl(server, "-n", SYSTEM, "create", "token", ACCOUNT).strip()
    config["users"][0]["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


def flags(server: ApiServer) -> list[str]:
    """The operator's flags in the Deployment, except `--listen`."""
    words = ("get", "deployment", "resile-operator", "-o", "json")
    spec = json.loads(kubectl(server, "-n", SYSTEM, *words))["spec"]["template"]["spec"]
    given: list[str] = spec["containers"][0]["command"]
    place = given.index("--listen")
    return [*given[2:place], *given[place + 2 :]]
