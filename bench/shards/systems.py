"""Command lines of each system's master and of a process that simulates some of its clients."""

import secrets
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path

from bench.launchers import Command
from bench.masters import dlrover_master, dlrover_python, resile_master
from bench.peers import dlrover_environment, resile_program

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Window:
    """The time in which shards are counted, on the monotonic clock that all processes share."""

    begin: float
    seconds: float


class ShardSystem(ABC):
    """A master, and clients for it."""

    name: str
    family: str
    label: str

    @abstractmethod
    def prepare(self) -> None:
        """Install what is missing; raises Unavailable."""

    @abstractmethod
    def service(self, *, port: int, folder: Path) -> Command:
        """The master, listening on a port."""

    @abstractmethod
    def clients(self, count: int, *, first: int, port: int, window: Window) -> Command:
        """``count`` clients, numbered from ``first``; prints {"shards": count} at the end."""


@dataclass(frozen=True)
class ResileShards(ShardSystem):
    """`resile master` with its default store: every lease is stored before the reply."""

    name: str = "resile"
    family: str = "resile"
    label: str = "Resile"
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def prepare(self) -> None:
        resile_program()

    def service(self, *, port: int, folder: Path) -> Command:
        return resile_master("--job", "shards", port=port, folder=folder, token=self.token)

    def clients(self, count: int, *, first: int, port: int, window: Window) -> Command:
        argv = [sys.executable, "-m", "bench.shards.resile_clients"]
        argv += _flags(count, first=first, port=port, window=window)
        return Command(argv, {"RESILE_TOKEN": self.token})


@dataclass(frozen=True)
class DlroverShards(ShardSystem):
    """DLRover's local master, which stores nothing."""

    name: str = "dlrover"
    family: str = "dlrover"
    label: str = "DLRover"

    def prepare(self) -> None:
        dlrover_environment()

    def service(self, *, port: int, folder: Path) -> Command:
        del folder
        return dlrover_master(job="shards", port=port, nodes=1)

    def clients(self, count: int, *, first: int, port: int, window: Window) -> Command:
        script = [dlrover_python(), str(_HERE / "dlrover_clients.py")]
        return Command([*script, *_flags(count, first=first, port=port, window=window)])


SHARD_SYSTEMS: tuple[ShardSystem, ...] = (DlroverShards(), ResileShards())


def _flags(count: int, *, first: int, port: int, window: Window) -> list[str]:
    return [
        *("--clients", str(count)),
        *("--first", str(first)),
        *("--port", str(port)),
        *("--begin", str(window.begin)),
        *("--seconds", str(window.seconds)),
    ]
