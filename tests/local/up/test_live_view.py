"""The live view of `resile up`, on a real terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from tests.local.commands import wait_for
from tests.local.up.ups import Machine, manifest, ticking

CLEARED = b"\x1b[2J"
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class Terminal:
    """A process on a separate terminal, and its screen output."""

    pid: int
    master: int
    shown: bytes = b""
    reader: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        with suppress(OSError):
            while data := os.read(self.master, 65536):
                self.shown += data

    @property
    def text(self) -> str:
        """Everything ever shown, without colours and cursor movements."""
        return _CONTROL.sub("", self.shown.decode(errors="replace"))

    def resize(self, *, lines: int, columns: int) -> None:
        """Resize the terminal, like a user does with a window."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def is_no_wider_than(self, columns: int) -> bool:
        """Whether no line that was drawn has to be wrapped by the terminal."""
        whole = self.text.replace("\r", "\n").rpartition("\n")[0]
        return all(len(line) <= columns for line in whole.splitlines())

    def wait(self) -> int:
        self.reader.join(60)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def terminals() -> Iterator[list[Terminal]]:
    """Terminals whose process is ended with the test."""
    opened: list[Terminal] = []
    yield opened
    for terminal in opened:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(terminal.pid, signal.SIGKILL)
            os.waitpid(terminal.pid, 0)
        os.close(terminal.master)


def open_terminal(machine: Machine, *words: str) -> Terminal:
    pid, master = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-m", "resile", *words], machine.env())
    terminal = Terminal(pid, master)
    terminal.resize(lines=40, columns=160)
    return terminal


def test_the_live_view_shows_nodes_steps_and_events_and_no_output(
    machine: Machine, terminals: list[Terminal]
) -> None:
    described = manifest("watched", {"worker": ticking(replicas=2, PAUSE="0.02")})
    terminal = open_terminal(machine, "up", str(machine.write(described)))
    terminals.append(terminal)
    machine.await_training("watched", nodes=2)
    for shown in ("watched-worker-1", "world size 2", "steps/s", "RoundRunning", "1 running"):
        wait_for(lambda shown=shown: shown in terminal.text, f"'{shown}' on the screen")
    assert "of rank 0" not in terminal.text, "output goes to the logs"
    assert terminal.is_no_wider_than(160)
    before = terminal.shown.count(CLEARED)
    terminal.resize(lines=14, columns=70)
    wait_for(lambda: terminal.shown.count(CLEARED) > before, "the screen to be cleared")
    terminal.shown = terminal.shown.rpartition(CLEARED)[2]
    wait_for(lambda: "watched-worker-1" in terminal.text, "the nodes to be drawn again")
    assert terminal.is_no_wider_than(70)
    os.write(terminal.master, b"\x03")
    assert terminal.wait() == 130
    assert "was interrupted; everything it started has ended" in terminal.text
    assert terminal.shown.rstrip().endswith(b"'resile logs watched'.")
    machine.has_nothing_left()


def test_with_logs_a_terminal_gets_plain_lines(machine: Machine, terminals: list[Terminal]) -> None:
    described = manifest("plain", {"worker": ticking(STEPS="10")})
    terminal = open_terminal(machine, "up", str(machine.write(described)), "--logs")
    terminals.append(terminal)
    assert terminal.wait() == 0
    assert "[plain-worker-0] [rank0] step 9 of rank 0" in terminal.text
    assert b"\x1b[2K" not in terminal.shown, "nothing is drawn over"
