"""One request of a worker of a round to a real master."""

from __future__ import annotations

from resile.shards.client import connect_for_shards
from resile.shards.protocol import Begin, Introduce, Lease, ToWorker
from tests.local.wire.masters import MasterProcess


async def ask(
    master: MasterProcess, request: Begin | Lease, *, round: int, rank: int = 0
) -> ToWorker:
    """Send it over a separate connection."""
    worker = Introduce(client=f"rank-{rank}", round=round, rank=rank)
    connection = await connect_for_shards(master.access, worker)
    try:
        return await connection.ask(request)
    finally:
        await connection.close()
