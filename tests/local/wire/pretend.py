"""Simulated agents without workers, over the real protocol: correct ones and arbitrary peers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

import aiohttp
import msgspec

from resile.job.elasticity import Elasticity
from resile.wire.client import AGENT_PATH, Access, AgentConnection, connect, greet
from resile.wire.codec import decode_from_master, encode_from_agent
from resile.wire.errors import Disconnected
from resile.wire.messages import (
    Fence,
    FromAgent,
    FromMaster,
    Handover,
    HandoverTold,
    Hello,
    Leave,
    NodeInfo,
    Prepare,
    Ready,
    Refused,
    Renew,
    Start,
    StoreAddress,
    Welcome,
)
from tests.local.wire.masters import MasterProcess, bearer

JOB = "none"
"""The default name of a master's job when only --nnodes is given."""

PATIENCE = 60.0
M = TypeVar("M", bound=FromMaster)
T = TypeVar("T")


def hello(name: str = "honest", **about: Any) -> Hello:
    """A new node's first message; ``about`` changes its fields."""
    info = NodeInfo(name=name, host="h", address="127.0.0.1", nproc=1)
    values = {"job": JOB, "info": info, "elasticity": Elasticity(), **about}
    return Hello(**values)


class HonestAgent:
    """Behaves like an agent without workers: it sends Ready and then Renew."""

    def __init__(self, connection: AgentConnection, welcome: Welcome) -> None:
        self.node = welcome.node
        self.round = welcome.round
        self.told: list[FromMaster] = [welcome]
        self._connection = connection
        self._changed = asyncio.Event()
        self._tasks = [
            asyncio.create_task(self._listen()),
            asyncio.create_task(self._renew(welcome.lease)),
        ]

    @property
    def fence(self) -> Fence:
        return Fence(self.node, self.round)

    async def _listen(self) -> None:
        with suppress(Disconnected):
            while True:
                message = await self._connection.receive()
                if isinstance(message, Prepare):
                    self.round = message.round
                    store = StoreAddress("127.0.0.1", 1) if message.host_store else None
                    await self.send(Ready(fence=self.fence, store=store))
                if isinstance(message, Handover):
                    number = message.handover
                    await self.send(HandoverTold(fence=self.fence, able=False, handover=number))
                self.told.append(message)
                self._changed.set()

    async def _renew(self, lease: float) -> None:
        with suppress(Disconnected):
            while True:
                await asyncio.sleep(lease / 5)
                await self.send(Renew(fence=self.fence))

    async def send(self, message: FromAgent) -> None:
        """Send a message."""
        await self._connection.send(message)

    def all(self, kind: type[M]) -> list[M]:
        """All messages of one kind from the master."""
        return [message for message in self.told if isinstance(message, kind)]

    async def hears(self, kind: type[M], *, more_than: int = 0) -> M:
        """Wait for a message of this kind, after the first ``more_than``."""
        while len(self.all(kind)) <= more_than:
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), PATIENCE)
        return self.all(kind)[-1]

    async def trains(self, *, world: int | None = None) -> Start:
        """Wait until a round runs with this node in it, of ``world`` workers if given."""
        while True:
            start = await self.hears(Start)
            if start.round == self.round and world in (None, start.world_size):
                return start
            await self.hears(Start, more_than=len(self.all(Start)))

    def is_undisturbed(self) -> bool:
        """Whether the master has sent only messages that every agent gets."""
        expected = (Welcome, Prepare, Start, Handover)
        return all(isinstance(message, expected) for message in self.told)

    async def close(self) -> None:
        """Leave the job cleanly."""
        with suppress(Disconnected):
            await self.send(Leave(fence=self.fence, reason="the test is over"))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connection.close()


@asynccontextmanager
async def honest_agent(access: Access, name: str = "honest") -> AsyncIterator[HonestAgent]:
    """A well-behaved node, from its Hello to its Leave."""
    connection = await connect(access)
    try:
        answer = await greet(connection, hello(name))
        assert isinstance(answer, Welcome), answer
    except BaseException:
        await connection.close()
        raise
    agent = HonestAgent(connection, answer)
    try:
        yield agent
    finally:
        await agent.close()


class Stranger:
    """A WebSocket to the master over which anything can be sent."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self._seq = 0

    async def say(self, body: FromAgent, *, seq: int | None = None) -> None:
        """Send one well-formed frame."""
        self._seq = self._seq + 1 if seq is None else seq
        await self.socket.send_bytes(encode_from_agent(self._seq, body))

    async def hear(self) -> FromMaster | None:
        """The next message; None when the master has closed the connection."""
        message = await asyncio.wait_for(self.socket.receive(), PATIENCE)
        if message.type is not aiohttp.WSMsgType.BINARY:
            return None
        return decode_from_master(message.data).body

    async def hear_kind(self, kind: type[M]) -> M:
        """Return the next message of one kind."""
        while True:
            message = await self.hear()
            assert message is not None, f"the connection was closed before a {kind.__name__}"
            if isinstance(message, kind):
                return message

    async def refusal(self) -> Refused:
        """Return the refusal that ends the connection."""
        refused = await self.hear_kind(Refused)
        while await self.hear() is not None:
            continue
        return refused


@asynccontextmanager
async def stranger(master: MasterProcess) -> AsyncIterator[Stranger]:
    """A peer that has the token but may not behave like an agent."""
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"http://{master.endpoint}{AGENT_PATH}",
            headers=bearer(master.token),
            timeout=aiohttp.ClientWSTimeout(ws_close=1.0),
        ) as socket,
    ):
        yield Stranger(socket)


async def is_served(master: MasterProcess) -> None:
    """Check that two well-behaved agents can join, form a round, and appear in the status."""
    async with (
        honest_agent(master.access, "first") as first,
        honest_agent(master.access, "second") as second,
    ):
        await train_together(first, second)
        shown = await asyncio.to_thread(master.status)
        assert {first.node, second.node} <= {node.member for node in shown.nodes.values()}
    await until(lambda: _gone(master, {first.node, second.node}), "the honest agents' leave")


async def train_together(*agents: HonestAgent) -> None:
    """Wait for a round that runs with all of these in it."""

    async def together() -> bool:
        running = {agent.all(Start)[-1].round for agent in agents if agent.all(Start)}
        return len(running) == 1 and all(running == {agent.round} for agent in agents)

    await until(together, "a round of all these agents")


async def _gone(master: MasterProcess, nodes: set[int]) -> bool:
    shown = await asyncio.to_thread(master.status)
    return not nodes & {node.member for node in shown.nodes.values()}


async def until(condition: Callable[[], Awaitable[T]], what: str) -> T:
    """Wait for the first true value of a condition."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while asyncio.get_running_loop().time() < deadline:
        if value := await condition():
            return value
        await asyncio.sleep(0.02)
    raise AssertionError(f"timed out after {PATIENCE:g} s waiting for {what}")


def packed(value: object) -> bytes:
    """Any value as msgpack."""
    return msgspec.msgpack.encode(value)
