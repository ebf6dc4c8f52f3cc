"""Keepers and workers as real processes, ended by pid with the test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from resile.snapshots.client import AgentSnapshotClient
from resile.snapshots.messages import WorkerHello

ROOT = Path(__file__).parents[3]
TOKEN = "a token that nobody can guess"


@dataclass(frozen=True)
class KeeperProcess:
    """One keeper."""

    process: subprocess.Popen[str]
    name: str
    address: str

    @property
    def pid(self) -> int:
        return self.process.pid

    def carriers(self) -> list[int]:
        """The processes that it started."""
        return [child.pid for child in psutil.Process(self.pid).children(recursive=True)]

    def connect(self, rank: int = 0, *, world: int = 1, round: int = 1) -> AgentSnapshotClient:
        worker = WorkerHello(rank=rank, local_rank=0, world=world, nproc=1, round=round)
        return AgentSnapshotClient(self.name, worker)


Start = Callable[..., "subprocess.Popen[str]"]
MakeKeeper = Callable[[], KeeperProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts modules of this folder; they and their children are killed at the end."""
    processes: list[subprocess.Popen[str]] = []

    def one(module: str, *arguments: str, cwd: Path = ROOT) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", f"tests.local.snapshots.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        processes.append(process)
        return process

    yield one
    for process in processes:
        children = []
        with suppress(psutil.NoSuchProcess):
            children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.communicate()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()


@pytest.fixture
def make_keeper(start: Start) -> MakeKeeper:
    def one() -> KeeperProcess:
        process = start("keeper", "127.0.0.1", TOKEN)
        assert process.stdout is not None
        name, address = process.stdout.readline().split()
        return KeeperProcess(process, name, address)

    return one


@pytest.fixture
def keeper(make_keeper: MakeKeeper) -> KeeperProcess:
    return make_keeper()
