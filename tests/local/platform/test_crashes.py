"""The process that holds the platform is killed: nothing it started may outlive it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from resile.local.limits.cgroups import sweep
from resile.system.cgroups import find_hierarchy
from tests.local.commands import wait_for
from tests.local.jobs import is_alive
from tests.local.platform.conftest import needs_cgroup
from tests.local.platform.test_stopping import RUNAWAY

ROOT = Path(__file__).parents[3]
CONTROLLERS = ("memory", "cpu")
TREE = ["sh", "-c", "sleep 1000 & sleep 1000 & wait"]
WORKERS = """
import os, time
open(f"worker{os.environ['LOCAL_RANK']}", "w").write(f"{os.getpid()}\\n")
time.sleep(1000)
"""


@dataclass
class Holder:
    """A process with a platform, and the processes below it."""

    process: subprocess.Popen[str]
    nodes: list[int]
    supervisors: list[int]

    def family(self) -> list[int]:
        own = psutil.Process(self.process.pid)
        return [own.pid, *(child.pid for child in own.children(recursive=True))]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def held(folder: Path, *commands: list[str]) -> Iterator[Holder]:
    code = [sys.executable, "-m", "tests.local.platform.holder", str(folder), json.dumps(commands)]
    with subprocess.Popen(code, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            said = json.loads(process.stdout.readline())
            yield Holder(process, said["nodes"], said["supervisors"])
        finally:
            process.kill()


@pytest.fixture
def to_end(tmp_path: Path) -> Iterator[list[int]]:
    """Processes to be ended after the test, if it failed to see them end; also their cgroups."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    sweep(tmp_path.name, CONTROLLERS)


def all_gone(pids: list[int]) -> None:
    wait_for(lambda: not any(is_alive(pid) for pid in pids), f"the end of {pids}")


def read_pid(file: Path) -> int:
    return int(wait_for(lambda: file.exists() and file.read_text().strip(), file.name) or 0)


def test_all_nodes_and_their_trees_die_with_a_killed_platform(
    tmp_path: Path, to_end: list[int]
) -> None:
    runaway = [sys.executable, "-S", "-c", RUNAWAY.format(then="time.sleep(1000)")]
    with held(tmp_path, TREE, runaway) as holder:
        to_end += [read_pid(tmp_path / "runaway"), *holder.family()]
        assert len(to_end) >= 9
        holder.kill()
        all_gone(to_end)


def test_all_trees_die_even_if_supervisors_are_killed_with_the_platform(
    tmp_path: Path, to_end: list[int]
) -> None:
    with held(tmp_path, ["sleep", "1000"], ["sleep", "1000"]) as holder:
        to_end += holder.family()
        for pid in [holder.process.pid, *holder.supervisors]:
            os.kill(pid, signal.SIGKILL)
        all_gone(holder.nodes)


def test_a_real_agent_and_its_workers_die_with_a_killed_platform(
    tmp_path: Path, to_end: list[int]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(WORKERS)
    run = ["resile", "run", "--standalone", "--nproc-per-node=2", str(script)]
    with held(tmp_path, run) as holder:
        to_end += [read_pid(tmp_path / f"worker{rank}") for rank in range(2)]
        to_end += holder.family()
        holder.kill()
        all_gone(to_end)


@needs_cgroup("memory")
def test_cgroups_of_a_killed_platform_are_removed(tmp_path: Path, to_end: list[int]) -> None:
    with held(tmp_path, TREE) as holder:
        to_end += holder.family()
        (home,) = homes_of(tmp_path.name, holder.process.pid)
        holder.kill()
        wait_for(lambda: not home.exists(), "the removal of the cgroups")


@needs_cgroup("memory")
def test_what_a_crash_of_everything_left_is_swept_up_by_the_next_run(
    tmp_path: Path, to_end: list[int]
) -> None:
    with held(tmp_path, TREE) as holder:
        to_end += holder.family()
        (home,) = homes_of(tmp_path.name, holder.process.pid)
        sweep(tmp_path.name, CONTROLLERS)
        assert all(is_alive(pid) for pid in holder.nodes), "a living run is none of our business"
        for pid in [holder.process.pid, *holder.supervisors]:
            os.kill(pid, signal.SIGKILL)
        holder.process.wait()
        sweep(f"{tmp_path.name}-too", CONTROLLERS)
        assert home.exists()
        sweep(tmp_path.name, CONTROLLERS)
        assert not home.exists()
        all_gone(to_end)


def homes_of(job: str, pid: int) -> list[Path]:
    hierarchy = find_hierarchy("memory")
    assert hierarchy is not None
    return [
        found for parent in hierarchy.upwards() for found in parent.glob(f"resile.{job}.*.{pid}.*")
    ]
