"""Operators as separate processes, on a server that has no kubelets."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from resile.wire.endpoint import free_port
from tests.local.commands import wait_for
from tests.warm_commands import resile_command


class OperatorProcess:
    """One `resile operator`."""

    def __init__(
        self,
        kubeconfig: str,
        folder: Path,
        *flags: str,
        image: str | None = "resile:test",
        command: Sequence[str] = (),
    ) -> None:
        """``command``: how a command begins, if not as in most tests."""
        self.port = free_port()
        self.log = folder / f"operator-{self.port}.log"
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(
                [
                    *(*(command or resile_command()), "operator"),
                    *("--kubeconfig", kubeconfig),
                    *("--listen", f"127.0.0.1:{self.port}"),
                    *(("--image", image) if image else ()),
                    *flags,
                ],
                stdout=output,
                stderr=output,
                env={**os.environ, "RESILE_LOG": "debug"},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def text(self) -> str:
        """Its log."""
        return self.log.read_text()

    def wait_until_it_leads(self) -> None:
        wait_for(lambda: "caches are synced" in self.text() or not self.running, what="an operator")
        assert self.running, self.text()

    def end(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.running:
            self._process.send_signal(how)
        self._process.wait(20)


@contextmanager
def operating(
    kubeconfig: str,
    folder: Path,
    *flags: str,
    image: str = "resile:test",
    command: Sequence[str] = (),
) -> Iterator[OperatorProcess]:
    """Run an operator during the block."""
    operator = OperatorProcess(kubeconfig, folder, *flags, image=image, command=command)
    try:
        operator.wait_until_it_leads()
        yield operator
    finally:
        operator.end(signal.SIGKILL)
