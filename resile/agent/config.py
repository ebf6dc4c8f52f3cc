"""The configuration of an agent, built by the command line and never changed afterwards."""

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
    """A node's share of a job."""

    access: Access
    run_id: str
    command: WorkerCommand
    nproc: int
    elasticity: Elasticity
    name: str
    address: str
    """The address at which other nodes reach this one."""

    working_dir: str = field(default_factory=lambda: str(Path.cwd()))
    """The workers' working directory: the agent's own at its start, even if deleted since."""

    fixed_store: Endpoint | None = None
    """Where the store of every round listens if the user chose it (static rendezvous)."""

    group: str = ""
    """The group of nodes that shares a world with this one; empty for the job's main group."""

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
    """The node's resource usage at a time of the monotonic clock, if its agent reports it."""

    restart_grace: float | None = None
    """Seconds between SIGTERM and SIGKILL for workers of a broken round. None: workers that handle
    SIGTERM get the shutdown timeout, since they may be saving something; others exit at once."""

    shutdown_timeout: float = 30.0
    """The same when the node leaves or the job is stopped: time to save something."""

    connect_timeout: float = 60.0
    """How long a master that never answered may stay unreachable."""

    snapshot_memory: int | None = None
    """Bytes that all snapshots on this node may take; None for all memory that is free."""

    flush_timeout: float = 300.0
    """How long a node whose part is over waits for its last checkpoint to be written. The writer
    itself retries unavailable storage for as long."""

    publish_grace: float = 60.0
    """How much of that is for other nodes' parts once its own are written. Nodes write about the
    same amount at the same time; parts that were lost with a node never arrive."""

    error_file: Path | None = None
    """Where the process that started this agent expects the first failure
    (TORCHELASTIC_ERROR_FILE)."""

    @property
    def save_grace(self) -> float:
        """How long a worker of a broken round that handles SIGTERM may take to save something: the
        node has to be ready for the next round well before it counts as hung."""
        return min(self.shutdown_timeout, self.elasticity.forming_timeout / 2)

    def node_info(self, *, peer_address: str) -> NodeInfo:
        """The node as the master and the other nodes see it. ``peer_address``: the address at which
        other nodes' agents reach this one's."""
        return NodeInfo(
            name=self.name,
            host=socket.gethostname(),
            address=self.address,
            nproc=self.nproc,
            role=self.role,
            rank=self.node_rank,
            generation=self.generation,
            pid=os.getpid(),
            peer_address=peer_address,
        )
