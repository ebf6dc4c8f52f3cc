"""A console that is not read, a disk that is full, and output that has to arrive unchanged."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import psutil
import pytest

from tests.local.checkpoint.disks import small_disk
from tests.local.commands import wait_for
from tests.local.jobs import SCRIPTS, Job, NodeProcess

__all__ = ["small_disk"]

SAYS = str(SCRIPTS / "says.py")


@contextmanager
def started(
    job: Job, *arguments: str, stdout: int | IO[bytes], stdin: int = subprocess.DEVNULL
) -> Iterator[NodeProcess]:
    """One node with the given stdout; its stderr is a file."""
    errors = job.folder / "stderr"
    with open(errors, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "resile", "run", "--standalone", *arguments],
            stdin=stdin,
            stdout=stdout,
            stderr=file,
            env=job.env(),
            start_new_session=True,
        )
    node = NodeProcess(process, errors)
    job.nodes.append(node)
    yield node


@pytest.fixture
def unread() -> Iterator[tuple[int, int]]:
    """A pipe that is read only by the test."""
    read, write = os.pipe()
    yield read, write
    os.close(read)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 80), (signal.SIGINT, 130)])
def test_signals_work_while_nobody_reads_the_console(
    job: Job, unread: tuple[int, int], number: signal.Signals, code: int
) -> None:
    with started(job, SAYS, "flood", str(job.folder / "never"), stdout=unread[1]) as node:
        wait_for(lambda: waiting_bytes(unread[0]) > 60_000, "a full pipe")
        node.signal(number)
        assert node.wait() == code, node.output


def waiting_bytes(pipe: int) -> int:
    """The bytes in a pipe that were written and not read."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


def test_output_that_is_read_late_is_whole(job: Job, unread: tuple[int, int]) -> None:
    with started(job, SAYS, "flood", str(job.folder / "said"), stdout=unread[1]) as node:
        os.close(unread[1])
        node.says("round 1 runs")
        with open(os.dup(unread[0]), "rb") as console:
            lines = console.read().splitlines()
        assert node.wait() == 0, node.output
    assert [line.split()[1] for line in lines] == [b"%d" % number for number in range(300)]


def test_output_that_a_full_disk_cannot_take_is_no_success(job: Job) -> None:
    with (
        open("/dev/full", "wb") as full,
        started(job, SAYS, "flood", str(job.folder / "said"), stdout=full) as node,
    ):
        assert node.wait() == 85
    assert (job.folder / "said").exists()
    assert re.search(r"\d+ bytes of output .* stdout: No space left on device", node.output)


def test_a_teed_file_that_cannot_grow_is_named_and_training_goes_on(job: Job) -> None:
    logs, end = job.folder / "logs", job.folder / "end"
    flags = ("--tee", "3", "--log-dir", str(logs))
    with started(job, *flags, SAYS, "tee", str(end), stdout=subprocess.DEVNULL) as node:
        (file,) = wait_for(lambda: list(logs.rglob("stdout.log")), "the file")
        # Like a full disk, for the agent alone: its files cannot grow any more.
        psutil.Process(node.pid).rlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
        node.says(f"cannot write a worker's output to {file}: File too large")
        end.touch()
        assert node.wait() == 85, node.output
    assert f"bytes of output could not be written to {file}" in node.output


def test_a_worker_whose_own_file_is_on_a_full_disk_has_that_said_of_it(
    small_disk: Path, job: Job
) -> None:
    """Its output goes straight there, and so would the reason of its end."""
    flags = ("--redirects", "3", "--log-dir", str(small_disk), "--max-restarts", "0")
    node = job.start(*flags, script="says.py", args=("flood", "never"), endpoint=False)
    assert node.wait() == 1, node.output
    (file,) = small_disk.rglob("stdout.log")
    assert f"The disk of {file.parent} is full." in node.output


def test_the_order_of_stdout_and_stderr_is_kept(job: Job) -> None:
    node = job.start(script="says.py", args=("turns",), endpoint=False)
    assert node.wait() == 0, node.output
    said = re.findall(r"^\[rank0\] (out|err) (\d+)$", node.output, re.MULTILINE)
    assert said == [(stream, str(n)) for n in range(50) for stream in ("out", "err")]


def test_a_prompt_is_shown_and_answered(job: Job) -> None:
    read, write = os.pipe()
    answers, answer = os.pipe()
    with started(job, SAYS, "prompt", stdout=write, stdin=answers) as node:
        os.close(write)
        os.close(answers)
        shown = b""
        while b"? " not in shown:
            shown += os.read(read, 1000)
        os.write(answer, b"yes\n")
        os.close(answer)
        with open(read, "rb") as rest:
            assert shown + rest.read() == b"[rank0] continue? answered yes\n"
        assert node.wait() == 0, node.output


def test_a_huge_stderr_file_costs_nothing(job: Job) -> None:
    flags = ("--redirects", "2", "--log-dir", str(job.folder / "logs"), "--max-restarts", "0")
    node = job.start(*flags, script="says.py", args=("huge-stderr",), endpoint=False)
    agent, most = psutil.Process(node.pid), 0
    with suppress(psutil.NoSuchProcess):
        while node.process.poll() is None:
            most = max(most, agent.memory_info().rss)
            time.sleep(0.01)
    assert node.wait() == 1, node.output
    assert "ValueError: the end of a gibibyte" in node.output
    assert "failed first    rank 0" in node.output
    assert most < 512 * 1024 * 1024
