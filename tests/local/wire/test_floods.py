"""Too many connections, too many messages, unread responses: others are still served."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import aiohttp

from resile.wire.client import AGENT_PATH
from resile.wire.codec import encode_from_agent
from resile.wire.messages import Fence, Prepare, Ready, Refused, Renew, StoreAddress, Welcome
from resile.wire.server import BURST
from tests.local.wire.masters import TOKEN, MasterProcess, bearer, running_master
from tests.local.wire.pretend import hello, honest_agent, is_served, stranger, until

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def tcp(master: MasterProcess, count: int, first: bytes = b"") -> AsyncIterator[list[Pair]]:
    """Plain connections that have sent ``first`` and nothing more."""
    host, port = master.endpoint.host, master.endpoint.port
    pairs: list[Pair] = []
    try:
        for _ in range(count):
            pair = await asyncio.open_connection(host, port)
            pairs.append(pair)
            if first:
                pair[1].write(first)
        yield pairs
    finally:
        for _, writer in pairs:
            writer.transport.abort()


async def all_closed(pairs: list[Pair]) -> None:
    """Wait until the other side has ended every one of these connections."""

    async def end(reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionError):
            while await reader.read(4096):
                continue

    await asyncio.wait_for(asyncio.gather(*(end(reader) for reader, _ in pairs)), 60)


HALF_REQUESTS = [
    b"GET /v1/sta",
    b"GET /v1/status HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    b"POST /v1/stop HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nxx",
    b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nX-Slow: ",
    (
        f"POST /v1/no HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Content-Length: 1000\r\n\r\nxx"
    ).encode(),
]


async def test_a_thousand_idle_connections_and_slow_requests_hinder_nobody_and_are_closed(
    master: MasterProcess,
) -> None:
    async with AsyncExitStack() as stack:
        idle = await stack.enter_async_context(tcp(master, 1000))
        slow = [
            pair
            for half in HALF_REQUESTS
            for pair in await stack.enter_async_context(tcp(master, 30, half))
        ]
        await is_served(master)
        await all_closed([*idle, *slow])
    await is_served(master)


async def test_floods_of_renewals_are_cut_off_while_others_are_served(
    master: MasterProcess,
) -> None:
    async def flood() -> Refused:
        async with stranger(master) as one:
            await one.say(hello("flood"))
            node = (await one.hear_kind(Welcome)).node
            for _ in range(2 * BURST):
                await one.say(Renew(fence=Fence(node, 0)))
            return await one.refusal()

    flooding = asyncio.gather(*(flood() for _ in range(5)))
    await is_served(master)
    for refusal in await flooding:
        assert "messages a second" in refusal.reason


async def test_a_flood_of_pings_is_cut_off_as_well(master: MasterProcess) -> None:
    async with stranger(master) as one:
        await one.say(hello("pings"))
        await one.hear_kind(Welcome)
        with suppress(ConnectionError):
            for _ in range(3 * BURST):
                await one.socket.ping(b"x" * 125)
        assert "messages a second" in (await one.refusal()).reason


async def test_pings_at_an_ordinary_pace_are_answered(master: MasterProcess) -> None:
    async with aiohttp.ClientSession() as session:
        url = f"http://{master.endpoint}{AGENT_PATH}"
        async with session.ws_connect(url, headers=bearer(TOKEN), autoping=False) as socket:
            await socket.ping(b"are you there")
            answer = await asyncio.wait_for(socket.receive(), 30)
            assert answer.type is aiohttp.WSMsgType.PONG
            assert bytes(answer.data) == b"are you there"


async def test_a_node_that_renews_but_never_reads_is_put_out_and_cut_off(tmp_path: Path) -> None:
    conf = "last_call=0.1,forming_timeout=0.5"
    with running_master(tmp_path, "--nnodes", "1:8", "--rdzv-conf", conf) as master:
        deaf = await asyncio.to_thread(_deaf_node, master)
        try:
            async with honest_agent(master.access) as honest:
                await honest.trains(world=1)
                deaf.setblocking(False)
                await until(lambda: _is_cut(deaf), "the end of the deaf node's connection")
        finally:
            deaf.close()


def _deaf_node(master: MasterProcess) -> socket.socket:
    """Join with a tiny receive buffer, and never read."""
    deaf = socket.socket()
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    deaf.connect((master.endpoint.host, master.endpoint.port))
    key = base64.b64encode(os.urandom(16)).decode()
    deaf.sendall(
        f"GET {AGENT_PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    while b"\r\n\r\n" not in deaf.recv(4096):
        continue
    deaf.sendall(_frame(encode_from_agent(1, hello("deaf"))))
    return deaf


def _frame(data: bytes) -> bytes:
    """A masked binary frame; a mask of zeros changes nothing."""
    length = bytes([0x80 | 126]) + len(data).to_bytes(2, "big")
    return b"\x82" + length + bytes(4) + data


async def _is_cut(deaf: socket.socket) -> bool:
    renewal = _frame(encode_from_agent(2**40, Renew(fence=Fence(0, 0))))
    try:
        deaf.send(renewal)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return False


async def test_members_that_join_and_vanish_do_not_keep_others_from_training(
    master: MasterProcess,
) -> None:
    async def come_and_go(number: int) -> None:
        async with stranger(master) as one:
            await one.say(hello(f"passing {number}"))
            prepare = await one.hear_kind(Prepare)
            if number % 2:
                node = (await _node_of(master, f"passing {number}")) or 0
                store = StoreAddress("127.0.0.1", 1)
                await one.say(Ready(fence=Fence(node, prepare.round), store=store))

    async with honest_agent(master.access) as honest:
        await honest.trains()
        await asyncio.gather(*(come_and_go(number) for number in range(8)))
        await until(lambda: _alone(master), "the passing nodes' end")
        await honest.trains(world=1)


async def _node_of(master: MasterProcess, name: str) -> int | None:
    shown = await asyncio.to_thread(master.status)
    found = [node.member for node in shown.nodes.values() if node.name == name]
    return found[0] if found else None


async def _alone(master: MasterProcess) -> bool:
    shown = await asyncio.to_thread(master.status)
    return len(shown.nodes) == 1 and shown.phase == "running"
