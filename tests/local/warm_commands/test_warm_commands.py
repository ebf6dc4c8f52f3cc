"""Commands that tests start fast behave like `python -m resile`, and end in the same way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.local.commands import wait_for
from tests.warm_commands import resile_command

REAL = (sys.executable, "-m", "resile")


def outcome(command: tuple[str, ...], *words: str, home: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        [*command, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "RESILE_HOME": str(home)},
        cwd=home,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["jobs"],
        ["describe", "ghost"],
        ["frobnicate"],
        ["run", "--nnodes", "zero", "x.py"],
        ["data", "check", "nowhere"],
    ],
    ids=" ".join,
)
def test_a_command_says_the_same_and_ends_the_same(words: list[str], tmp_path: Path) -> None:
    expected = outcome(REAL, *words, home=tmp_path)
    assert outcome(resile_command(), *words, home=tmp_path) == expected


def start(tmp_path: Path) -> subprocess.Popen[str]:
    """A command that runs until it is ended: a master, which prints a line when it listens."""
    words = ("master", "--endpoint", "127.0.0.1:0", "--store", str(tmp_path / "store"))
    env = {**os.environ, "RESILE_HOME": str(tmp_path)}
    return subprocess.Popen([*resile_command(), *words], env=env, stderr=subprocess.PIPE, text=True)


def pid_behind(master: subprocess.Popen[str], tmp_path: Path) -> int:
    """The process that has the store open."""

    def found() -> int:
        for process in psutil.process_iter():
            try:
                files = [file.path for file in process.open_files()]
            except psutil.Error:
                continue
            if str(tmp_path / "store") in files:
                return process.pid
        return 0

    return wait_for(found, "a master with its store open")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_command(number: signal.Signals, tmp_path: Path) -> None:
    with start(tmp_path) as master:
        pid = pid_behind(master, tmp_path)
        master.send_signal(number)
        master.wait(60)
    assert not psutil.pid_exists(pid)


def test_a_killed_command_is_killed(tmp_path: Path) -> None:
    with start(tmp_path) as master:
        pid = pid_behind(master, tmp_path)
        master.kill()
    wait_for(lambda: not psutil.pid_exists(pid), "the command to be gone")


def test_a_command_that_dies_by_a_signal_is_seen_to(tmp_path: Path) -> None:
    with start(tmp_path) as master:
        os.kill(pid_behind(master, tmp_path), signal.SIGSEGV)
    assert master.returncode == -signal.SIGSEGV
