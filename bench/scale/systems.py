"""Command lines of each system's master and of the process that simulates its agents."""

import secrets
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path

from bench.launchers import Command
from bench.masters import dlrover_master, dlrover_python, resile_master
from bench.peers import dlrover_environment, resile_program

_HERE = Path(__file__).parent


class System(ABC):
    """A master or store, and simulated agents for it."""

    name: str
    family: str
    label: str

    def prepare(self) -> None:  # noqa: B027 - most systems need nothing
        """Install what is missing; raises Unavailable."""

    @abstractmethod
    def service(self, agents: int, *, port: int, folder: Path) -> Command:
        """The master or store, listening on a port."""

    @abstractmethod
    def crowd(self, agents: int, *, port: int) -> Command:
        """The simulated agents; prints facts as JSON lines."""


@dataclass(frozen=True)
class ResileMaster(System):
    """`resile master` with its default store."""

    name: str = "resile"
    family: str = "resile"
    label: str = "Resile"
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))

    def prepare(self) -> None:
        resile_program()

    def service(self, agents: int, *, port: int, folder: Path) -> Command:
        flags = ("--job", "scale", "--nnodes", f"{agents - 1}:{agents}")
        return resile_master(*flags, port=port, folder=folder, token=self.token)

    def crowd(self, agents: int, *, port: int) -> Command:
        argv = [sys.executable, "-m", "bench.scale.resile_agents", *_flags(agents, port)]
        return Command(argv, {"RESILE_TOKEN": self.token})


@dataclass(frozen=True)
class C10dStore(System):
    """torch's TCPStore and dynamic rendezvous."""

    name: str = "torchrun"
    family: str = "torchrun"
    label: str = "torchrun, c10d"

    def service(self, agents: int, *, port: int, folder: Path) -> Command:
        del folder
        return Command([*self._script(agents, port), "--serve"])

    def crowd(self, agents: int, *, port: int) -> Command:
        return Command(self._script(agents, port))

    def _script(self, agents: int, port: int) -> list[str]:
        return [sys.executable, str(_HERE / "c10d_agents.py"), *_flags(agents, port)]


@dataclass(frozen=True)
class DlroverMaster(System):
    """DLRover's local master."""

    name: str = "dlrover"
    family: str = "dlrover"
    label: str = "DLRover"

    def prepare(self) -> None:
        dlrover_environment()

    def service(self, agents: int, *, port: int, folder: Path) -> Command:
        del folder
        return dlrover_master(job="scale", port=port, nodes=agents)

    def crowd(self, agents: int, *, port: int) -> Command:
        return Command([dlrover_python(), str(_HERE / "dlrover_agents.py"), *_flags(agents, port)])


SYSTEMS: tuple[System, ...] = (C10dStore(), DlroverMaster(), ResileMaster())


def _flags(agents: int, port: int) -> list[str]:
    return ["--agents", str(agents), "--port", str(port)]
