"""torch's rendezvous interface on top of a Resile master.

torchrun's agent requests a round (:meth:`MasterRendezvous.next_rendezvous`), polls several times a
second for a reason to start a new one, and calls ``shutdown`` at the end. If it requests a new
round without a reason from the master, its own workers failed.

torchrun keeps its own way of recovering: it stops all its workers and restarts them. The master
adds: lost nodes are noticed at once, the host of the store may die, the master may die, and nodes
may come and go at any time.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket

from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousStoreInfo,
)

from resile.train.torchrun.agent_introspection import CallingAgent, worker_failures
from resile.train.torchrun.link_thread import TorchrunLinkThread
from resile.train.torchrun.member import JobSucceeded, Member
from resile.train.torchrun.round_store import WorkerStore, agent_store
from resile.train.torchrun.settings import Settings
from resile.wire.instructions import PrepareRound, StartWorkers
from resile.wire.messages import NodeInfo, Start

log = logging.getLogger("resile.rendezvous")

VERDICT_WAIT = 5.0
"""Seconds that a node whose workers failed for good waits for the job's outcome."""


class MasterRendezvous(RendezvousHandler):  # type: ignore[misc]  # torch is not followed by mypy
    """A node's part in a job's rounds."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._agent: CallingAgent | None = None
        self._member: Member | None = None
        self._line: TorchrunLinkThread | None = None
        self._store: WorkerStore | None = None

    # --- torch's interface ------------------------------------------------------------------

    def get_backend(self) -> str:
        """The name of the backend."""
        return "resile"

    def get_run_id(self) -> str:
        """The job's name."""
        return self._settings.run_id

    @property
    def use_agent_store(self) -> bool:
        """True: the agent serves the workers' store, one per round."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for the next round with this node in it. Workers of older rounds are stopped."""
        member = self._member or self._join()
        if member.trains:
            member.failed(worker_failures(member.first_rank))
        try:
            start = self._agree(member)
        except JobSucceeded as end:
            log.warning("the job succeeded without this node: %s", end)
            # torch has an exception for this, RendezvousGracefulExitError, but its launcher then
            # fails on the missing result.
            raise SystemExit(0) from None
        # Inherited by workers; `resile run` sets the same.
        os.environ["RESILE_ROUND"] = str(start.round)
        os.environ["RESILE_RUN"] = start.run
        return self._info(start)

    def num_nodes_waiting(self) -> int:
        """Return 1 when the workers have to stop, for a new round or for good; else 0."""
        return int(self._member is not None and not self._member.trains)

    def is_closed(self) -> bool:
        """Return whether no further round will form."""
        return self._member is not None and self._member.is_over

    def set_closed(self) -> None:
        """Report how this node's workers ended, and that they will not be restarted."""
        member, agent = self._member, self._agent
        if member is None or agent is None:
            return
        if agent.workers_succeeded:
            member.succeeded()
            if not member.await_verdict(None):
                member.leave("its workers succeeded, and torchrun does not restart them")
        elif agent.workers_failed:
            member.failed(worker_failures(member.first_rank))
            if not member.await_verdict(VERDICT_WAIT):
                member.leave("its workers failed, and torchrun has no restarts left")
        else:
            member.leave("torchrun ended")

    def shutdown(self) -> bool:
        """Leave the job and release all resources."""
        try:
            self.set_closed()
        finally:
            self._hang_up()
        return True

    # --- rounds -----------------------------------------------------------------------------

    def _join(self) -> Member:
        """Join the job in the first call, when the agent is on the call stack."""
        self._agent = CallingAgent()
        spec = self._agent.spec
        settings = self._settings
        self._member = member = Member(
            settings.run_id,
            NodeInfo(
                name=os.environ.get("RESILE_NODE_NAME") or f"{socket.gethostname()}-{os.getpid()}",
                host=socket.gethostname(),
                address=settings.address,
                nproc=spec.local_world_size,
                role=spec.role,
                rank=settings.rank,
                generation=settings.generation,
                pid=os.getpid(),
            ),
            elasticity=settings.elasticity(spec.max_restarts),
            connect_timeout=settings.connect_timeout,
            say=lambda message: line.send(message),
            rejoin=lambda: line.rejoin(),
        )
        self._line = line = TorchrunLinkThread(
            settings.access,
            hello=member.hello,
            renewal=member.renewal,
            deliver=member.deliver,
            give_up_after=member.give_up_after,
            broken=member.broken,
        )
        line.open()
        # torchrun does not call shutdown when it is ended by a signal.
        atexit.register(self._leave_at_exit)
        return member

    def _agree(self, member: Member) -> Start:
        while True:
            order = member.next_order()
            if isinstance(order, StartWorkers):
                return order.start
            self._prepare(member, order)

    def _prepare(self, member: Member, prepare: PrepareRound) -> None:
        self._store = WorkerStore(self._settings.address) if prepare.host_store else None
        member.ready(prepare, None if self._store is None else self._store.address)

    def _info(self, start: Start) -> RendezvousInfo:
        if self._agent is None:
            raise RuntimeError("a round started before this node joined")
        return RendezvousInfo(
            agent_store(start, self._agent.spec),
            start.group_rank,
            start.group_world_size,
            RendezvousStoreInfo(start.store.host, start.store.port),
        )

    def _leave_at_exit(self) -> None:
        if self._member is not None:
            self._member.leave("torchrun ended")
        self._hang_up()

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        if line is not None:
            atexit.unregister(self._leave_at_exit)
            line.close()
        self._store = None
