"""The identity of a process, and that no other process is mistaken for it."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from devcluster import identity
from devcluster.daemons import Daemon, start_all, stop_all
from devcluster.errors import DaemonFailed
from devcluster.identity import Identity, parse
from devcluster.waiting import holds_within
from resile.system.processes import boot_id, start_time

SLEEP = ("/bin/sleep", "60")


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(SLEEP)
    yield process
    process.kill()
    process.wait()


def daemon(folder: Path, *argv: str) -> Daemon:
    return Daemon("sleeper", argv or SLEEP, pid_file=folder / "pids" / "a", log=folder / "a.log")


def test_this_process_is_running() -> None:
    mine = start_time(os.getpid())
    assert mine is not None
    assert Identity(os.getpid(), mine, boot_id()).is_running()


def test_a_reused_pid_is_somebody_else(stranger: subprocess.Popen[bytes]) -> None:
    began = start_time(stranger.pid)
    assert began is not None
    earlier = Identity(stranger.pid, began - 1, boot_id())
    assert not earlier.is_running()
    assert not earlier.send(signal.SIGKILL)
    assert stranger.poll() is None


def test_a_process_of_another_boot_is_gone(stranger: subprocess.Popen[bytes]) -> None:
    began = start_time(stranger.pid)
    assert began is not None
    assert not Identity(stranger.pid, began, "another-boot").send(signal.SIGKILL)
    assert stranger.poll() is None


def test_a_process_was_started_at_a_time(stranger: subprocess.Popen[bytes]) -> None:
    began = start_time(stranger.pid)
    assert began is not None
    started = Identity(stranger.pid, began, boot_id()).started_at()
    age = (datetime.now(timezone.utc) - started).total_seconds()
    assert 0 <= age < 30


def test_a_zombie_has_ended(stranger: subprocess.Popen[bytes]) -> None:
    stranger.kill()
    assert holds_within(5, lambda: start_time(stranger.pid) is None)


@pytest.mark.parametrize("note", ["", "12", "12 x boot", "-1 2 boot", "1 2 boot more"])
def test_what_is_no_note_names_nobody(note: str) -> None:
    assert parse(note) is None


def test_a_note_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("12 345 boot\n")
    assert identity.read(tmp_path / "note") == Identity(12, 345, "boot")
    assert identity.read(tmp_path / "none") is None


def test_a_daemon_is_noted_outlives_its_starter_and_is_stopped_by_its_note(tmp_path: Path) -> None:
    start = (
        "import sys; from pathlib import Path; from devcluster.daemons import Daemon\n"
        "pid_file, log, *argv = sys.argv[1:]\n"
        "Daemon('sleeper', argv, pid_file=Path(pid_file), log=Path(log)).start()\n"
    )
    sleeper = daemon(tmp_path)
    notes = (str(sleeper.pid_file), str(sleeper.log))
    env = {"PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run((sys.executable, "-c", start, *notes, *SLEEP), env=env, check=True)
    found = sleeper.identity()
    assert found is not None
    assert Path(f"/proc/{found.pid}/cmdline").read_bytes().startswith(b"/bin/sleep")
    assert not sleeper.start()
    stop_all([sleeper])
    assert sleeper.identity() is None


def test_a_daemon_that_dies_at_once_is_an_error_that_names_its_log(tmp_path: Path) -> None:
    with pytest.raises(DaemonFailed, match=r"sleeper died; its log is .*a\.log"):
        start_all([daemon(tmp_path, "/bin/false")])
