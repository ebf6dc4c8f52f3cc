"""Where the cluster is found, as kubectl would, and what is said when it is not."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from resile.platform.kubernetes.client import KubeClient
from resile.platform.kubernetes.errors import ApiError, ConfigError, Forbidden
from resile.platform.kubernetes.kinds import NAMESPACES, PODS
from resile.platform.kubernetes.kubeconfig import find_cluster
from tests.kube.apiserver import ADMIN, GUEST, ApiServer, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One that checks permissions."""
    with running(tmp_path_factory.mktemp("kube"), authorization="RBAC") as server:
        yield server


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test sees the configuration of whoever runs it."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def written(path: Path, **changes: Any) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": "https://one.example"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "one",
        **changes,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(config))
    return path


async def test_the_file_named_is_used_with_its_namespace(server: ApiServer) -> None:
    kubeconfig = server.kubeconfig(namespace="kube-system")
    async with KubeClient.connect(kubeconfig=kubeconfig) as client:
        assert client.namespace == "kube-system"
        assert await client.get(NAMESPACES, "kube-system")
    async with KubeClient.connect(kubeconfig=kubeconfig, namespace="other") as client:
        assert client.namespace == "other"


async def test_who_may_not_is_told_what(server: ApiServer) -> None:
    async with KubeClient.connect(kubeconfig=server.kubeconfig(GUEST)) as client:
        with pytest.raises(Forbidden, match='User "guest" cannot list resource "pods"'):
            await client.list(PODS)


async def test_who_is_unknown_is_refused(server: ApiServer) -> None:
    async with KubeClient.connect(kubeconfig=server.kubeconfig("stranger")) as client:
        with pytest.raises(ApiError, match="Unauthorized") as refused:
            await client.list(PODS)
    assert refused.value.status == 401


async def test_a_credential_plugin_of_any_version_is_asked(
    server: ApiServer, tmp_path: Path
) -> None:
    """By a path relative to the file; it answers in the version that it is told."""
    plugin = tmp_path / "bin" / "plugin"
    plugin.parent.mkdir()
    plugin.write_text(
        "#!/usr/bin/env python3\n"
        "import json, os\n"
        "told = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        f"told['status'] = {{'token': {ADMIN!r}}}\n"
        "print(json.dumps(told))\n"
    )
    plugin.chmod(plugin.stat().st_mode | stat.S_IXUSR)
    cluster = yaml.safe_load(Path(server.kubeconfig()).read_text())["clusters"][0]["cluster"]
    for version in ("v1", "v1beta1"):
        user = {"exec": {"apiVersion": f"client.authentication.k8s.io/{version}"}}
        user["exec"] |= {"command": "bin/plugin", "interactiveMode": "Never"}
        path = written(
            tmp_path / "config",
            clusters=[{"name": "c", "cluster": cluster}],
            users=[{"name": "u", "user": user}],
        )
        async with KubeClient.connect(kubeconfig=str(path)) as client:
            assert await client.list(NAMESPACES)


async def test_a_credential_plugin_that_is_missing_is_a_mistake_of_the_file(
    tmp_path: Path,
) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such"}}
    path = written(tmp_path / "config", users=[{"name": "u", "user": user}])
    async with KubeClient.connect(kubeconfig=str(path)) as client:
        with pytest.raises(ConfigError, match="no-such"):
            await client.list(PODS)


async def test_inside_a_pod_the_service_account_is_used(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text(ADMIN)
    (account / "namespace").write_text("here")
    (account / "ca.crt").write_bytes(server.certificate.read_bytes())
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(server.port))
    async with KubeClient(find_cluster(service_account=str(account))) as client:
        assert client.namespace == "here"
        assert await client.list(NAMESPACES)


def test_a_kubeconfig_goes_before_the_service_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / ".kube" / "config")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    assert find_cluster().cluster.server == "https://one.example"


def test_several_files_are_one_and_the_first_that_says_something_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = [{"name": "c", "cluster": {"server": "https://two.example"}}]
    paths = [
        tmp_path / "missing",
        written(tmp_path / "a", contexts=None, **{"current-context": ""}),
        written(tmp_path / "b", clusters=second),
    ]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, paths)))
    found = find_cluster()
    assert found.context_name == "one"
    assert found.cluster.server == "https://one.example"


def test_certificates_are_found_beside_the_file_that_names_them(tmp_path: Path) -> None:
    cluster = {"server": "https://one.example", "certificate-authority": "ca.crt"}
    path = written(tmp_path / "deep" / "config", clusters=[{"name": "c", "cluster": cluster}])
    found = find_cluster(kubeconfig=str(path))
    assert found.cluster.certificate_auth == str(tmp_path / "deep" / "ca.crt")
    with pytest.raises(ConfigError, match="credentials of context 'one' cannot be used"):
        KubeClient(found)


def test_no_configuration_at_all_says_what_would_be_one() -> None:
    with pytest.raises(ConfigError, match=r"no kubeconfig at .*/\.kube/config.*set \$KUBECONFIG"):
        find_cluster()


def test_a_context_without_a_file_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no context 'prod': there is no kubeconfig at"):
        find_cluster(context="prod")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"current-context": "prod"}, "has no context 'prod'; it has: one"),
        ({"current-context": ""}, "no current context; name one of these: one"),
        ({"clusters": []}, "lacks the cluster 'c' of its context 'one'"),
        ({"users": []}, "lacks the user 'u' of its context 'one'"),
        ({"users": [{"name": "u"}]}, "is no kubeconfig: an entry lacks 'user'"),
        ({"contexts": {"one": 1}}, "is no kubeconfig"),
        ({"contexts": [{"name": "one", "context": {}}]}, "is no kubeconfig: .*`cluster`"),
    ],
)
def test_a_mistake_in_the_file_is_named(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    path = written(tmp_path / "config", **changes)
    with pytest.raises(ConfigError, match=sentence):
        find_cluster(kubeconfig=str(path))


@pytest.mark.parametrize("text", ["[]", "just words", "a: [", json.dumps({"clusters": 3})])
def test_a_file_that_is_something_else_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigError, match=r"config (is no kubeconfig|has no current context)"):
        find_cluster(kubeconfig=str(tmp_path / "config"))


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="there is no kubeconfig at /nowhere/config"):
        KubeClient.connect(kubeconfig="/nowhere/config")
