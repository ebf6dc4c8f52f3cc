"""The answers which show that a node is not cut off."""

from __future__ import annotations

import asyncio
import socket

from resile.agent.isolation import is_reachable, probe_targets
from resile.wire.endpoint import Endpoint, free_port
from resile.wire.messages import Start, StoreAddress

MASTER = Endpoint("10.0.0.1", 29400)


def part(*, rank: int, neighbour: str = "") -> Start:
    return Start(
        round=1,
        group_rank=rank,
        group_world_size=2,
        first_rank=rank,
        world_size=2,
        store=StoreAddress("10.0.0.2", 4000),
        restart_count=0,
        max_restarts=3,
        neighbour=neighbour,
    )


def test_a_node_probes_the_master_the_stores_host_and_the_next_node() -> None:
    assert probe_targets(MASTER, None) == [MASTER]
    assert probe_targets(MASTER, part(rank=0)) == [MASTER], "the store is its own"
    assert probe_targets(MASTER, part(rank=1, neighbour="10.0.0.3:5000")) == [
        MASTER,
        Endpoint("10.0.0.2", 4000),
        Endpoint("10.0.0.3", 5000),
    ]


async def test_who_accepts_and_who_refuses_is_there() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await is_reachable(Endpoint("127.0.0.1", port))
    server.close()
    await server.wait_closed()
    assert await is_reachable(Endpoint("127.0.0.1", free_port()))


async def test_who_does_not_answer_at_all_is_not_there() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        where = full.getsockname()
        waiting = []
        for _ in range(8):  # until its queue is full, and attempts are dropped
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(where)
            waiting.append(one)
        assert not await is_reachable(Endpoint(*where))
        for one in waiting:
            one.close()
