"""All an agent has to know, gathered by the command line and never changed afterwards."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from resile.agent.console import Console
from resile.agent.logs import LogRouting
from resile.agent.nursery import Preload, WorkerCommand
from resile.agent.relay import OutputRelay
from resile.job.elasticity import Elasticity
from resile.wire.client import Access
from resile.wire.endpoint import Endpoint
from resile.wire.messages import NodeInfo, Usage


@dataclass(frozen=True)
class AgentConfig:
    """One node's share of a job."""

    access: Access
    run_id: str
    command: WorkerCommand
    nproc: int
    elasticity: Elasticity
    name: str
    address: str
    """Where other nodes reach this one."""

    working_dir: str = field(default_factory=lambda: str(Path.cwd()))
    """Where workers run: the agent's own at its start, also after somebody has deleted it."""

    fixed_store: Endpoint | None = None
    """Where the store of every round listens, where the user chose it (static rendezvous)."""

    group: str = ""
    """The group of nodes that it shares a world with; empty for the job's main group."""

    role: str = "default"
    node_rank: int | None = None
    generation: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    logs: LogRouting = field(default_factory=LogRouting)
    output: OutputRelay = field(default_factory=lambda: OutputRelay(Console.of_this_process()))
    preload: Preload = field(default_factory=Preload)
    virtual_local_rank: bool = False

    signals: tuple[signal.Signals, ...] = (
        signal.SIGTERM,
        signal.SIGINT,
        signal.SIGHUP,
        signal.SIGQUIT,
    )
    """Signals on which this node leaves the job."""

    event_log_handler: str = "null"
    """Where torch's events of workers and agent go: ``console``, or nowhere."""

    usage: Callable[[float], Usage | None] = lambda _now: None
    """What this node uses at a moment of the monotonic clock, where its agent is to tell."""

    restart_grace: float | None = None
    """How long workers of a broken round have between SIGTERM and SIGKILL. None: those that handle
    SIGTERM have the shutdown timeout, since they may be saving something; others end at once."""

    shutdown_timeout: float = 30.0
    """The same when the node leaves or the job is stopped: time to save something."""

    connect_timeout: float = 60.0
    """How long a master that was never seen may stay unreachable."""

    snapshot_memory: int | None = None
    """Bytes that snapshots may take on this node in all; None for whatever is free."""

    flush_timeout: float = 300.0
    """How long a node whose part is over waits for its last checkpoint to be written. Storage that
    is away is given as long by the writer itself."""

    publish_grace: float = 60.0
    """How much of that is for other nodes' parts, once its own are written. Nodes write about as
    much as each other, and at the same time; what was lost with a node never comes."""

    error_file: Path | None = None
    """Where whoever started this agent wants the first failure (TORCHELASTIC_ERROR_FILE)."""

    @property
    def save_grace(self) -> float:
        """How long a worker of a broken round that handles SIGTERM may take to save something: the
        node has to be ready for the next round well before it counts as one that hangs."""
        return min(self.shutdown_timeout, self.elasticity.forming_timeout / 2)

    def node_info(self, *, door: str) -> NodeInfo:
        """The node as the master and the other nodes see it. ``door``: where their agents reach
        this one's."""
        return NodeInfo(
            name=self.name,
            host=socket.gethostname(),
            address=self.address,
            nproc=self.nproc,
            role=self.role,
            rank=self.node_rank,
            generation=self.generation,
            pid=os.getpid(),
            door=door,
        )
