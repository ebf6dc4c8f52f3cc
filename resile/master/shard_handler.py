"""Handler of workers' requests for data: passes them to the leases in the master's one task.

Requests of a worker of a round are accepted only while that round runs; that is its fence. Clients
without rounds are tracked by their connections: one that does not reconnect within the grace is
lost.
"""

from __future__ import annotations

from resile.master.records import RoundPhase
from resile.master.service import MasterService
from resile.shards.leases import Lessee
from resile.shards.protocol import (
    Begin,
    FromWorker,
    Introduce,
    Lease,
    NotAccepted,
    NotYet,
    ToWorker,
)

ASK_AGAIN_FOR_ROUND = 0.05
"""Seconds. A round that does not run ends its workers, or runs again in a moment."""


class WorkerConnection:
    """The connection of one worker."""

    def __init__(self, worker: Introduce) -> None:
        self.worker = worker
        self.lessee = Lessee(worker.client, worker.round, worker.group)


class ShardRequestHandler:
    """Implements :class:`resile.shards.server.ShardHandler`."""

    def __init__(self, service: MasterService) -> None:
        self._service = service
        self._connections: dict[str, WorkerConnection] = {}

    def arrived(self, worker: Introduce) -> WorkerConnection:
        """Add the connection of a worker."""
        worker_connection = WorkerConnection(worker)
        if worker.round is None:
            self._connections[worker.client] = worker_connection
            self._service.post(lambda _now: self._service.shards.reconnected(worker.client))
        return worker_connection

    async def answer(self, connection: object, request: FromWorker) -> ToWorker:
        """Answer a request, in the one task, once its records are written."""
        assert isinstance(connection, WorkerConnection)
        worker_connection = connection
        return await self._service.promise(
            lambda now: self._decide(worker_connection, request, now)
        )

    def departed(self, connection: object) -> None:
        """Remove the connection of a worker."""
        assert isinstance(connection, WorkerConnection)
        client = connection.worker.client
        if self._connections.get(client) is connection:
            del self._connections[client]
            group = self._service.groups.get(connection.worker.group) or self._service.membership
            grace = group.elasticity.connection_grace
            self._service.post(
                lambda now: self._service.shards.client_disconnected(client, proof_at=now + grace)
            )

    def _decide(
        self, worker_connection: WorkerConnection, request: FromWorker, now: float
    ) -> ToWorker:
        if refusal := self._why_fenced(worker_connection.worker):
            return refusal
        if refusal := self._why_forgotten(worker_connection.worker, now):
            return refusal
        book = self._service.shards
        match request:
            case Begin():
                return book.begin(worker_connection.lessee, request, now=now)
            case Lease():
                return book.lease(worker_connection.lessee, request, now=now)
            case _:
                return NotAccepted(reason=f"{type(request).__name__} is not expected here")

    def _why_fenced(self, worker: Introduce) -> NotAccepted | NotYet | None:
        """Return why a worker of a round is refused; None if it is not."""
        if worker.round is None:
            return None
        group = self._service.groups.get(worker.group)
        if group is None:
            reason = f"the group '{worker.group}' is not known to this master yet"
            return NotYet(after=ASK_AGAIN_FOR_ROUND, reason=reason)
        latest = group.round
        if worker.round < latest.number or group.job.outcome:
            reason = f"round {worker.round} is over; the job is at round {latest.number}"
            return NotAccepted(reason=reason, stale=True)
        if not latest.number:
            reason = f"round {worker.round} is not known to this master yet"
            return NotYet(after=ASK_AGAIN_FOR_ROUND, reason=reason)
        if worker.round > latest.number:
            return NotAccepted(reason=f"there is no round {worker.round} yet")
        if latest.phase is not RoundPhase.RUNNING:
            reason = f"round {worker.round} is {latest.phase.value}"
            return NotYet(after=ASK_AGAIN_FOR_ROUND, reason=reason)
        if worker.rank >= latest.world_size:
            return NotAccepted(reason=f"round {worker.round} has no rank {worker.rank}")
        return None

    def _why_forgotten(self, worker: Introduce, now: float) -> NotYet | None:
        """A round that was recovered from agents continues, but its leases are lost.

        Records that its ranks took since their last snapshot cannot be told from those that none
        took, so the round is formed again, and begins its data from what it restores.
        """
        group = self._service.groups.get(worker.group)
        if group is None or worker.round is None or worker.round != group.job.recalled:
            return None
        self._service.groups.touch(worker.group)
        group.leases_lost(now=now)
        return NotYet(
            after=ASK_AGAIN_FOR_ROUND, reason="its leases are lost: the round is formed again"
        )
