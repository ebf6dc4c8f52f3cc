"""An API server with the ElasticJob definition, accessed by kubectl and by plain HTTP."""

from __future__ import annotations

import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.kube.apiserver import ADMIN, ApiServer, running
from tests.local.commands import wait_for
from tests.programs import KUBECTL

DEFINITION = Path(__file__).parents[3] / "deploy" / "crds" / "elasticjobs.resile.dev.yaml"
JOBS = "/apis/resile.dev/v1alpha1/namespaces/default/elasticjobs"


class Refused(Exception):
    """The API server rejected a request; the message is its error."""


class Cluster:
    """One API server with the definition from deploy/crds installed through kubectl."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._cache = server.folder / "kubectl"
        self._trust = ssl.create_default_context(cafile=str(server.certificate))

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl and return its output; raises Refused with the error if it fails."""
        config = ("--kubeconfig", self._server.kubeconfig(), "--cache-dir", str(self._cache))
        done = subprocess.run(
            [KUBECTL, *config, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode != 0:
            raise Refused(done.stderr)
        return done.stdout

    def create(self, job: dict[str, Any]) -> dict[str, Any]:
        """Store a job as it is, without validation by a client."""
        return self.request("POST", JOBS, job)

    def judge(self, job: dict[str, Any]) -> dict[str, Any]:
        """Return the object that would be stored, with a dry run."""
        return self.request("POST", f"{JOBS}?dryRun=All", job)

    def get(self, name: str) -> dict[str, Any]:
        return self.request("GET", f"{JOBS}/{name}")

    def write_status(self, name: str, status: dict[str, Any]) -> dict[str, Any]:
        return self.request("PATCH", f"{JOBS}/{name}/status", {"status": status})

    def tells_clients(self) -> bool:
        """Whether the schema is published, which takes a while; kubectl needs it to validate."""
        return "dev.resile.v1alpha1.ElasticJob" in self.request("GET", "/openapi/v2")["definitions"]

    def request(
        self, method: str, path: str, body: Any = None, *, kind: str | None = None
    ) -> dict[str, Any]:
        usual = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            self._server.url + path,
            method=method,
            data=None if body is None else msgspec.json.encode(body),
            headers={"Authorization": f"Bearer {ADMIN}", "Content-Type": kind or usual},
        )
        try:
            with urllib.request.urlopen(request, context=self._trust, timeout=30) as answer:
                return msgspec.json.decode(answer.read(), type=dict[str, Any])
        except urllib.error.HTTPError as error:
            raise Refused(msgspec.json.decode(error.read())["message"]) from None


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("kube")) as server:
        cluster = Cluster(server)
        cluster.kubectl("apply", "-f", str(DEFINITION))
        named = "crd/elasticjobs.resile.dev"
        cluster.kubectl("wait", "--for=condition=Established", named, "--timeout=30s")
        wait_for(cluster.tells_clients, "kubectl being told what an ElasticJob is")
        yield cluster
