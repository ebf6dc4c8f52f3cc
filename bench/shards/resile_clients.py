"""Clients of a Resile master: a task each, with a real connection of its own.

Each one leases without a round, as `ShardClient` does in a loop: one request reports the last shard
as done and takes the next. Prints {"shards": count} of the window. The token comes from
$RESILE_TOKEN.
"""

import argparse
import asyncio
import json
import os
import time

from resile.shards.client import ShardConnection, connect_for_shards
from resile.shards.protocol import (
    Begin,
    Begun,
    DatasetSpec,
    Introduce,
    Lease,
    Leased,
    Shard,
    digest_of,
)
from resile.shards.spans import Spans
from resile.wire.auth import TOKEN_VARIABLE
from resile.wire.client import Access
from resile.wire.endpoint import Endpoint

HOST = "127.0.0.1"
DATASET = "bench"
# More than can be leased in a minute.
SPEC = DatasetSpec(sizes=(10**12,), shard_size=1000, shuffle=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("--clients", "--first", "--port"):
        parser.add_argument(name, type=int, required=True)
    for name in ("--begin", "--seconds"):
        parser.add_argument(name, type=float, required=True)
    options = parser.parse_args()
    access = Access(Endpoint(HOST, options.port), os.environ[TOKEN_VARIABLE])
    names = [f"client-{options.first + number}" for number in range(options.clients)]
    counted = asyncio.run(_all(access, names, options.begin, options.begin + options.seconds))
    print(json.dumps({"shards": counted}), flush=True)


async def _all(access: Access, names: list[str], begin: float, end: float) -> int:
    connections = [await _ready(access, name) for name in names]
    if time.monotonic() > begin:
        raise RuntimeError("the clients were not ready when the window began")
    counts = await asyncio.gather(*(_take(one, begin, end) for one in connections))
    await asyncio.gather(*(one.close() for one in connections))
    return sum(counts)


async def _ready(access: Access, name: str) -> ShardConnection:
    connection = await connect_for_shards(access, Introduce(client=name))
    digest = digest_of(SPEC, epoch=0, done=[Spans()])
    answer = await connection.ask(Begin(dataset=DATASET, spec=SPEC, digest=digest, done=()))
    if not isinstance(answer, Begun):
        raise RuntimeError(f"not begun: {answer}")
    return connection


async def _take(connection: ShardConnection, begin: float, end: float) -> int:
    """Return the number of shards taken in the window; the last was requested within it."""
    await asyncio.sleep(max(0.0, begin - time.monotonic()))
    held: tuple[Shard, ...] = ()
    count = 0
    while time.monotonic() < end:
        request = Lease(
            dataset=DATASET,
            epoch=0,
            number=count + 1,
            records=SPEC.shard_size,
            shards=1,
            done=held,
        )
        answer = await connection.ask(request)
        if not isinstance(answer, Leased):
            raise RuntimeError(f"no shard: {answer}")
        held = answer.shards
        count += 1
    return count


if __name__ == "__main__":
    main()
