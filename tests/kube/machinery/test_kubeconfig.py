"""The cluster is found in the same way as by kubectl, and errors say why it is not."""

from __future__ import annotations

import base64
import errno
import json
import os
import stat
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from resile.client.cluster.cluster import is_configured
from resile.kube.client import KubeClient
from resile.kube.errors import ApiError, ApiUnreachable, ConfigError, Forbidden
from resile.kube.kubeconfig import find_cluster
from resile.kube.resources import NAMESPACES, PODS
from tests.kube.apiserver import ADMIN, GUEST, ApiServer, running


class Authority:
    """The authority whose client certificates the server trusts."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority")])
        self.certificate = folder / "clients.crt"
        own = self._signed(self._name, self._key)
        self.certificate.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def client(self, name: str, *, group: str) -> tuple[str, str]:
        """A certificate for this user, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        known_as = (
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, group),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        )
        certificate = self._signed(x509.Name(known_as), key)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode()

    def _signed(self, name: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
        now = datetime.now(timezone.utc)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(
                x509.BasicConstraints(ca=name == self._name, path_length=None), critical=True
            )
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        )
        return builder.sign(self._key, hashes.SHA256())


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Any:
    """A server that checks permissions."""
    flags = ("--client-ca-file", str(authority.certificate))
    with running(tmp_path_factory.mktemp("kube"), authorization="RBAC", flags=flags) as server:
        yield server


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the kubeconfig of the user who runs the tests."""
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


def changed(server: ApiServer, path: Path, *, cluster: Any = None, user: Any = None) -> str:
    """The server's own kubeconfig with more fields in its entries."""
    config = yaml.safe_load(Path(server.kubeconfig()).read_text())
    config["clusters"][0]["cluster"] |= cluster or {}
    config["users"][0]["user"] |= user or {}
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def test_whom_to_impersonate_counts(server: ApiServer, tmp_path: Path) -> None:
    path = changed(server, tmp_path / "config", user={"as": GUEST})
    async with KubeClient.connect(kubeconfig=path) as client:
        with pytest.raises(Forbidden, match='User "guest" cannot list resource "pods"'):
            await client.list(PODS)
    user = {"as": GUEST, "as-groups": ["some", "system:masters"]}
    path = changed(server, tmp_path / "config", user=user)
    async with KubeClient.connect(kubeconfig=path) as client:
        await client.list(PODS)


async def test_the_name_of_the_servers_certificate_counts(
    server: ApiServer, tmp_path: Path
) -> None:
    names = {"tls-server-name": "kubernetes.default.svc"}
    path = changed(server, tmp_path / "config", cluster=names)
    async with KubeClient.connect(kubeconfig=path) as client:
        await client.list(PODS)
    names = {"tls-server-name": "other.example"}
    path = changed(server, tmp_path / "config", cluster=names)
    async with KubeClient.connect(kubeconfig=path) as client:
        with pytest.raises(ApiUnreachable, match=r"other\.example"):
            await client.list(PODS)


async def test_a_credential_plugin_may_give_a_certificate(
    server: ApiServer, authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.client("printed", group="system:masters")
    status = {"clientCertificateData": certificate, "clientKeyData": key}
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": status}
    (tmp_path / "answer").write_text(json.dumps(answer))
    plugin = {"apiVersion": version, "command": "cat", "args": [str(tmp_path / "answer")]}
    path = changed(server, tmp_path / "config", user={"token": None, "exec": plugin})
    async with KubeClient.connect(kubeconfig=path) as client:
        assert await client.list(NAMESPACES)


async def test_a_credential_plugin_of_any_version_is_asked(
    server: ApiServer, tmp_path: Path
) -> None:
    """By a path relative to the file; it responds in the version that it is given."""
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
    assert found.cluster.certificate_authority == str(tmp_path / "deep" / "ca.crt")
    with pytest.raises(ConfigError, match=r"'certificate-authority' .*deep/ca.crt: No such file"):
        KubeClient(found)
    (tmp_path / "deep" / "ca.crt").write_text("no certificate")
    with pytest.raises(ConfigError, match="credentials of context 'one' cannot be used"):
        KubeClient(found)


def test_a_certificate_in_the_file_goes_before_one_beside_it(
    server: ApiServer, tmp_path: Path
) -> None:
    data = base64.b64encode(server.certificate.read_bytes()).decode()
    cluster = {"server": server.url, "certificate-authority": "no.crt"}
    cluster["certificate-authority-data"] = data
    path = written(tmp_path / "config", clusters=[{"name": "c", "cluster": cluster}])
    KubeClient.connect(kubeconfig=str(path))


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
        ({"current-context": ""}, "no current context; choose one of these: one"),
        ({"clusters": []}, "lacks the cluster 'c' of its context 'one'"),
        ({"users": []}, "lacks the user 'u' of its context 'one'"),
        ({"users": [{"name": "u"}]}, "is not a valid kubeconfig: its user 'u' lacks 'user'"),
        ({"users": [{"user": {}}]}, "is not a valid kubeconfig: its user number 1 has no name"),
        ({"users": [{"name": "u", "user": {"client-certificate": "x"}}]}, "lacks its 'client-key'"),
        ({"clusters": [{"name": "c", "cluster": None}]}, "its cluster 'c' lacks 'server'"),
        (
            {"users": [{"name": "u", "user": {"auth-provider": {"name": "gcp"}}}]},
            "the 'auth-provider' of user 'u' in .*/config is not supported",
        ),
        ({"contexts": {"one": 1}}, "is not a valid kubeconfig"),
        ({"contexts": [{"name": "one", "context": {}}]}, "is not a valid kubeconfig: .*`cluster`"),
    ],
)
def test_a_mistake_in_the_file_is_named(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    path = written(tmp_path / "config", **changes)
    with pytest.raises(ConfigError, match=sentence):
        find_cluster(kubeconfig=str(path))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "has no current context"),
        ("[]", "is not a valid kubeconfig: there should be clusters, users and contexts"),
        ("just words", "is not a valid kubeconfig: there should be clusters.* there is a text"),
        ("a: [", "is not a valid kubeconfig: while parsing"),
        (json.dumps({"clusters": 3}), "is not a valid kubeconfig: its clusters are not a list"),
    ],
)
def test_a_file_that_is_something_else_is_named(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConfigError, match=rf"config {sentence}") as refused:
        find_cluster(kubeconfig=str(tmp_path / "config"))
    assert len(str(refused.value).splitlines()) == 1


def test_what_is_wrong_with_others_entries_is_nobodys_trouble(tmp_path: Path) -> None:
    users = [
        {"name": "unused", "user": None},
        {"name": "odd", "user": {"as": ["list"]}},
        {"name": "u", "user": {"token": "t"}},
    ]
    clusters = [
        {"name": "odd", "cluster": {"proxy-url": 3}},
        {"name": "c", "cluster": {"server": "https://one.example"}},
    ]
    path = written(tmp_path / "config", users=users, clusters=clusters)
    found = find_cluster(kubeconfig=str(path))
    assert found.user.token == "t"


def test_an_empty_user_is_nobody(tmp_path: Path) -> None:
    path = written(tmp_path / "config", users=[{"name": "u", "user": None}])
    found = find_cluster(kubeconfig=str(path))
    assert found.user.token is None


def unreadable(tmp_path: Path) -> dict[str, str]:
    """Values of $KUBECONFIG that cannot be read, and the error for each."""
    folder = tmp_path / "folder"
    folder.mkdir()
    hidden = tmp_path / "hidden"
    hidden.mkdir(mode=0o000)
    found = {
        str(folder): "folder cannot be read: Is a directory",
        f"{tmp_path}/{'x' * 300}": "cannot be read: File name too long",
        "~nosuch/x": "the kubeconfig ~nosuch/x cannot be found: there is no user",
    }
    if os.geteuid() != 0:
        found[str(hidden / "config")] = "cannot be read: Permission denied"
    return found


def test_a_file_that_cannot_be_looked_at_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path, sentence in unreadable(tmp_path).items():
        monkeypatch.setenv("KUBECONFIG", f"/nowhere{os.pathsep}{path}")
        with pytest.raises(ConfigError, match=sentence):
            find_cluster()
        assert is_configured(), "connecting tells what is wrong"
        with pytest.raises(ConfigError, match=sentence):
            find_cluster(kubeconfig=path)


def test_a_folder_that_may_not_be_entered_is_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As above, also for root, to whom permissions do not apply."""

    def forbidden(path: Path, **_: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "hidden" / "config"))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", forbidden)
        with pytest.raises(ConfigError, match=r"hidden/config cannot be read: Permission denied"):
            find_cluster()
        assert is_configured()


def test_a_device_is_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", os.devnull)
    with pytest.raises(ConfigError, match="no cluster is configured"):
        find_cluster()


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="there is no kubeconfig at /nowhere/config"):
        KubeClient.connect(kubeconfig="/nowhere/config")
