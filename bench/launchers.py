"""Adapters of the launchers: command lines for its agents, and for a service if it needs one.

An adapter only builds command lines; it starts nothing. All agents run on this machine and on
loopback, one per simulated node, with the same script and the same environment. The *variants* of a
launcher (torchrun with its private store, with shorter timeouts, with etcd) are separate launchers
here, because each is a choice that a user would have to know about and make.
"""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.peers import dlrover_environment, etcd_program, python_etcd_folder, resile_program

HOST = "127.0.0.1"
MANY_RESTARTS = 100
PROBE = Path(__file__).with_name("probe.py")
# Variables of the caller's environment that would change a launcher's configuration.
_FOREIGN_PREFIXES = ("PET_", "TORCHELASTIC_", "DLROVER_", "RESILE_")


@dataclass(frozen=True)
class Shape:
    """The number of nodes a job may have, and of workers on each."""

    min_nodes: int
    max_nodes: int
    workers_per_node: int

    @property
    def nodes_flag(self) -> str:
        """The value of --nnodes."""
        if self.min_nodes == self.max_nodes:
            return str(self.max_nodes)
        return f"{self.min_nodes}:{self.max_nodes}"


@dataclass(frozen=True)
class Site:
    """The name, shape and folder of one job, and two free ports."""

    job: str
    shape: Shape
    folder: Path
    port: int
    spare_port: int

    @property
    def endpoint(self) -> str:
        """The address of the job's rendezvous."""
        return f"{HOST}:{self.port}"


@dataclass(frozen=True)
class Command:
    """A program to start: its arguments, and what it adds to the common environment."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


class Launcher(ABC):
    """The adapter for one launcher: its command lines, and how to recognise its master."""

    name: str
    family: str
    label: str

    def prepare(self) -> None:  # noqa: B027 - most launchers need nothing
        """Install what is missing; raises Unavailable."""

    def service(self, site: Site) -> Command | None:
        """A program that must listen on the site's port before the first agent starts."""
        del site
        return None

    @abstractmethod
    def agent(self, site: Site, node: int) -> Command:
        """The agent of one node."""

    def is_master(self, argv: Sequence[str]) -> bool:
        """Whether a process of the job is its master, which belongs to no node."""
        del argv
        return False


@dataclass(frozen=True)
class Torchrun(Launcher):
    """torch.distributed.run with the c10d backend."""

    name: str = "torchrun"
    label: str = "torchrun"
    family: str = "torchrun"
    private_store: bool = False
    conf: str = ""

    def agent(self, site: Site, node: int) -> Command:
        del node
        argv = [sys.executable, "-m", "torch.distributed.run", *_torchrun_flags(site.shape)]
        argv += self._rendezvous(site)
        if self.conf:
            argv.append(f"--rdzv-conf={self.conf}")
        return Command([*argv, str(PROBE)], self._env())

    def _rendezvous(self, site: Site) -> list[str]:
        if site.shape.max_nodes == 1:
            return ["--standalone"]
        meeting = [f"--rdzv-endpoint={site.endpoint}", f"--rdzv-id={site.job}"]
        return ["--rdzv-backend=c10d", *meeting]

    def _env(self) -> dict[str, str]:
        return {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"} if self.private_store else {}


@dataclass(frozen=True)
class TorchrunEtcd(Torchrun):
    """torch.distributed.run with the etcd-v2 backend and an etcd that speaks the v2 API."""

    name: str = "torchrun-etcd"
    label: str = "torchrun, etcd-v2"
    private_store: bool = True

    def prepare(self) -> None:
        etcd_program()
        python_etcd_folder()

    def service(self, site: Site) -> Command:
        client, peer = f"http://{site.endpoint}", f"http://{HOST}:{site.spare_port}"
        flags = {
            "data-dir": str(site.folder / "etcd"),
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"default={peer}",
        }
        argv = [etcd_program(), "--enable-v2", *(f"--{name}={flags[name]}" for name in flags)]
        return Command(argv)

    def is_master(self, argv: Sequence[str]) -> bool:
        return "--enable-v2" in argv

    def _rendezvous(self, site: Site) -> list[str]:
        meeting = [f"--rdzv-endpoint={site.endpoint}", f"--rdzv-id={site.job}"]
        return ["--rdzv-backend=etcd-v2", *meeting]

    def _env(self) -> dict[str, str]:
        return {**super()._env(), "PYTHONPATH": str(python_etcd_folder())}


@dataclass(frozen=True)
class Dlrover(Launcher):
    """dlrover-run 0.6.1 with its local master, which must be started separately on torch 2.13."""

    name: str = "dlrover"
    label: str = "DLRover"
    family: str = "dlrover"
    conf: str = ""

    def prepare(self) -> None:
        dlrover_environment()

    def service(self, site: Site) -> Command:
        argv = [str(dlrover_environment() / "python"), "-u", "-m", "dlrover.python.master.main"]
        argv += ["--platform", "local", "--job_name", site.job, "--port", str(site.port)]
        return Command([*argv, "--node_num", str(site.shape.max_nodes)], _path_first())

    def agent(self, site: Site, node: int) -> Command:
        shape = site.shape
        argv = [
            str(dlrover_environment() / "dlrover-run"),
            f"--nnodes={shape.min_nodes}:{shape.max_nodes}",
            f"--nproc_per_node={shape.workers_per_node}",
            f"--max_restarts={MANY_RESTARTS}",
        ]
        if self.conf:
            argv.append(f"--rdzv_conf={self.conf}")
        env = {
            "DLROVER_MASTER_ADDR": site.endpoint,
            "NODE_RANK": str(node),
            "NODE_ID": str(node),
            "NODE_NUM": str(shape.max_nodes),
            "POD_IP": HOST,
            # Names its sockets and shared memory; agents of one machine must not share them.
            "ELASTIC_JOB_NAME": f"{site.job}-{node}",
        }
        return Command([*argv, str(PROBE)], {**env, **_path_first()})

    def is_master(self, argv: Sequence[str]) -> bool:
        return "dlrover.python.master.main" in argv


@dataclass(frozen=True)
class Resile(Launcher):
    """`resile run`. The first agent starts the master, as a separate process."""

    name: str = "resile"
    label: str = "Resile"
    family: str = "resile"

    def prepare(self) -> None:
        resile_program()

    def agent(self, site: Site, node: int) -> Command:
        del node
        argv = [resile_program(), "run", *_torchrun_flags(site.shape)]
        if site.shape.max_nodes == 1:
            argv.append("--standalone")
        else:
            argv += [f"--rdzv-endpoint={site.endpoint}", f"--rdzv-id={site.job}"]
        # Its tokens and stores, which would otherwise go to the user's own state folder.
        return Command([*argv, str(PROBE)], {"RESILE_HOME": str(site.folder / "resile")})

    def is_master(self, argv: Sequence[str]) -> bool:
        return "master" in argv[1:4]


def base_environment() -> dict[str, str]:
    """The environment all launchers share: ours, without what would configure one of them."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN_PREFIXES)
    }
    return {**kept, "OMP_NUM_THREADS": "1"}


# Last call and keep-alives as short as the flags allow, with a margin for a slow machine.
_TUNED = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"

LAUNCHERS: tuple[Launcher, ...] = (
    Torchrun(),
    Torchrun("torchrun-private-store", "torchrun, private store", private_store=True),
    Torchrun("torchrun-tuned", "torchrun, private store, tuned", private_store=True, conf=_TUNED),
    TorchrunEtcd(),
    Dlrover(),
    Dlrover("dlrover-tuned", "DLRover, last call 5 s", conf="lastcall_timeout=5"),
    Resile(),
)


def _torchrun_flags(shape: Shape) -> list[str]:
    """Flags that torchrun and `resile run` both understand."""
    return [
        f"--nnodes={shape.nodes_flag}",
        f"--nproc-per-node={shape.workers_per_node}",
        f"--max-restarts={MANY_RESTARTS}",
    ]


def _path_first() -> dict[str, str]:
    """A PATH with DLRover's environment first: in places it starts `python` by name."""
    return {"PATH": f"{dlrover_environment()}{os.pathsep}{os.environ.get('PATH', '')}"}
