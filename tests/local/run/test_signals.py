"""Signals are forwarded to workers unchanged, once, and handlers have time to run."""

from __future__ import annotations

import os
import pty
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.local.commands import wait_for
from tests.local.jobs import SCRIPTS, Job

SIGNALLED = str(SCRIPTS / "signalled.py")


def notes(folder: Path, rank: int = 0) -> list[str]:
    path = folder / f"rank{rank}"
    return path.read_text().split("\n")[:-1] if path.exists() else []


def waits(folder: Path, rank: int = 0) -> None:
    wait_for(lambda: "waits" in notes(folder, rank), f"rank {rank}")


def test_ctrl_c_is_an_interrupt_for_workers(job: Job, tmp_path: Path) -> None:
    node = job.start(script=SIGNALLED, args=(str(tmp_path), "plain"), nproc=2, endpoint=False)
    waits(tmp_path, 0)
    waits(tmp_path, 1)
    node.signal(signal.SIGINT)
    assert node.wait() == 130, node.output
    for rank in (0, 1):
        assert notes(tmp_path, rank) == ["waits", "got SIGINT", "finally"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_other_signals_reach_workers_as_themselves(
    job: Job, tmp_path: Path, number: signal.Signals
) -> None:
    flags = ("--signals-to-handle", "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1")
    node = job.start(*flags, script=SIGNALLED, args=(str(tmp_path), "handles"), endpoint=False)
    waits(tmp_path)
    node.signal(number)
    assert node.wait() == 80, node.output
    assert notes(tmp_path) == ["waits", f"got {number.name}", "saved", "finally"]


def test_a_terminals_interrupt_reaches_workers_once(job: Job, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "resile", "run", "--standalone", SIGNALLED, str(tmp_path)]
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.execve(sys.executable, [*words, "plain"], job.env())
    try:
        waits(tmp_path)
        os.write(terminal, b"\x03")
        with suppress(OSError):
            while os.read(terminal, 65536):
                pass
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
        assert notes(tmp_path) == ["waits", "got SIGINT", "finally"]
    finally:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(terminal)


@contextmanager
def ignored(*numbers: signal.Signals) -> Iterator[None]:
    """Processes that are started in the block ignore these signals, as under nohup."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_job_in_the_background_outlives_its_terminal_and_can_be_interrupted(
    job: Job, tmp_path: Path
) -> None:
    with ignored(signal.SIGHUP, signal.SIGINT):
        node = job.start(script=SIGNALLED, args=(str(tmp_path), "plain"), endpoint=False)
    waits(tmp_path)
    node.signal(signal.SIGHUP)
    node.signal(signal.SIGINT)
    assert node.wait() == 130, node.output
    assert notes(tmp_path) == ["waits", "got SIGINT", "finally"]


def test_a_worker_that_ignores_the_signal_is_asked_with_sigterm(job: Job, tmp_path: Path) -> None:
    node = job.start(script=SIGNALLED, args=(str(tmp_path), "ignores"), endpoint=False)
    waits(tmp_path)
    node.signal(signal.SIGINT)
    assert node.wait() == 130, node.output
    assert notes(tmp_path) == ["waits", "got SIGTERM", "saved", "finally"]


def test_a_survivor_of_a_broken_round_has_time_to_save(job: Job, tmp_path: Path) -> None:
    node = job.start(script=SIGNALLED, args=(str(tmp_path), "fails"), nproc=2, endpoint=False)
    assert node.wait() == 0, node.output
    assert notes(tmp_path) == ["waits", "got SIGTERM", "saved", "finally"]


def test_an_interrupt_while_the_command_starts_is_one(job: Job) -> None:
    node = job.start(script=SIGNALLED, args=(".", "plain"), endpoint=False)
    # From here on our command starts, and not Python.
    wait_for(lambda: "msgspec" in Path(f"/proc/{node.pid}/maps").read_text(), "the command")
    node.signal(signal.SIGINT)
    assert node.wait() == 130, node.output
    assert "Traceback" not in node.output
