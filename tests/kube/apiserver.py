"""A real Kubernetes API server on loopback with its own etcd: no kubelet, no controllers, no mocks.

Everything that only reads and writes objects can be tested against it. It is up in some seconds,
can be stopped, killed, frozen and started again with the same data at the same port, and its
history can be compacted away. All processes are children of the test and end with it.
"""

from __future__ import annotations

import base64
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from devcluster.layout import Layout
from resile.wire.endpoint import free_port
from tests.kube.history import ask_etcd, forget_history
from tests.local.commands import wait_for
from tests.local.etcd.server import EtcdServer

BINARY = Layout.default().built.folder / "kube-apiserver"

ADMIN = "admin"
GUEST = "guest"
"""Somebody without any permission, where permissions are checked."""


class ApiServer:
    """An API server that two users know: one may do all, the other what RBAC gives them."""

    def __init__(
        self, folder: Path, *, authorization: str = "AlwaysAllow", flags: Sequence[str] = ()
    ) -> None:
        self.port = free_port()
        self.folder = folder
        self.etcd = EtcdServer(folder)
        self._flags = ("--authorization-mode", authorization, *flags)
        self._process: subprocess.Popen[bytes] | None = None
        self._prepare()

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def _etcd_url(self) -> str:
        return f"http://127.0.0.1:{self.etcd.port}"

    @property
    def certificate(self) -> Path:
        """Self-made by the server at its first start."""
        return self.folder / "certificates" / "apiserver.crt"

    @property
    def log(self) -> str:
        return (self.folder / "apiserver.log").read_text()

    def start(self) -> None:
        """Returns when it is ready."""
        with (self.folder / "apiserver.log").open("ab") as log:
            self._process = subprocess.Popen([str(BINARY), *self._arguments()], stderr=log)
        wait_for(self._is_ready, "a ready API server")

    def ensure(self) -> None:
        """Start it if it does not run."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it, by default as a crash does; its etcd goes on."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Connections stay, and nobody answers: what a dead link looks like."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def compact(self) -> None:
        """Forget all history up to now."""
        forget_history(self._etcd_url)

    def forget(self, path: str) -> None:
        """Take an object (plural, namespace and name) out of etcd, behind the server's back."""
        key = base64.b64encode(f"/registry/{path}".encode()).decode()
        assert ask_etcd(self._etcd_url, "deleterange", {"key": key})["deleted"] == "1"

    def kubeconfig(self, user: str = ADMIN, *, namespace: str = "default") -> str:
        """The path of a file that kubectl would take."""
        path = self.folder / f"kubeconfig-{user}-{namespace}"
        context = {"cluster": "test", "user": user, "namespace": namespace}
        config = {
            "clusters": [{"name": "test", "cluster": self._cluster()}],
            "users": [{"name": user, "user": {"token": user}}],
            "contexts": [{"name": "test", "context": context}],
            "current-context": "test",
        }
        path.write_text(yaml.safe_dump(config))
        return str(path)

    def _cluster(self) -> dict[str, str]:
        return {"server": self.url, "certificate-authority": str(self.certificate)}

    def _prepare(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        (self.folder / "accounts.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        tokens = (f"{ADMIN},{ADMIN},1,system:masters", f"{GUEST},{GUEST},2")
        (self.folder / "tokens.csv").write_text("\n".join(tokens))

    def _arguments(self) -> Sequence[str]:
        accounts = str(self.folder / "accounts.key")
        return [
            *("--etcd-servers", self._etcd_url),
            *("--bind-address", "127.0.0.1", "--secure-port", str(self.port)),
            *("--cert-dir", str(self.certificate.parent)),
            *("--token-auth-file", str(self.folder / "tokens.csv")),
            *("--service-cluster-ip-range", "10.96.0.0/16"),
            *("--service-account-issuer", "https://resile.test"),
            *("--service-account-key-file", accounts),
            *("--service-account-signing-key-file", accounts),
            # Nobody here makes the account that pods would have to have.
            *("--disable-admission-plugins", "ServiceAccount"),
            *self._flags,
        ]

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        request = urllib.request.Request(
            f"{self.url}/readyz", headers={"Authorization": f"Bearer {ADMIN}"}
        )
        try:
            trust = ssl.create_default_context(cafile=str(self.certificate))
            with urllib.request.urlopen(request, context=trust, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def running(folder: Path, **options: Any) -> Iterator[ApiServer]:
    """An API server while the block runs; the test is skipped where there is no binary of it."""
    if not BINARY.exists():
        pytest.skip(f"no API server to test against: {BINARY} is not built")
    server = ApiServer(folder, **options)
    server.etcd.start()
    try:
        server.start()
        yield server
    finally:
        server.stop()
        server.etcd.stop()
