"""A `resile` command as a user starts it: its process, its output, and waiting for both."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

PATIENCE = 60.0
"""The timeout of a wait, generous for a busy machine."""

SHOWN = 4000
"""Characters of a command's output that a failed test shows."""

T = TypeVar("T")


def wait_for(condition: Callable[[], T], what: str, *, timeout: float = PATIENCE) -> T:
    """Wait for the first true value of ``condition``."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.01)
    raise AssertionError(f"timed out after {timeout:g} s waiting for {what}")


@dataclass
class Command:
    """One running command; its output goes to a file."""

    process: subprocess.Popen[bytes]
    output_file: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def output(self) -> str:
        return self.output_file.read_text(errors="replace")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        self._wait_for(lambda: self.process.poll() is not None, f"the end of {self.pid}")
        return self.process.returncode

    def says(self, text: str, *, times: int = 1) -> None:
        self._wait_for(lambda: self.output.count(text) >= times, f"'{text}' x{times}")

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        try:
            wait_for(condition, what)
        except AssertionError as error:
            raise AssertionError(f"{error} in:\n{self.output[-SHOWN:]}") from None
