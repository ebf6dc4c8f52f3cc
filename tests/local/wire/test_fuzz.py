"""Peers that send arbitrary data to a running master: it survives, and other nodes keep training.

The peer may join, and then its node counts like any other, so the job may move to other rounds; but
the bystander must never be evicted, refused, or informed that the job is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resile.wire.codec import decode_from_master, encode_from_agent
from resile.wire.messages import (
    Fence,
    Fenced,
    FromAgent,
    Hello,
    JobDone,
    Prepare,
    Refused,
    Welcome,
)
from tests.local.wire.masters import MasterProcess, running_master
from tests.local.wire.pretend import JOB, hello, honest_agent, is_served, stranger
from tests.unit.wire import samples

ROUNDS_OF_FUZZING = 40


@pytest.fixture(scope="module")
def fuzzed_master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MasterProcess]:
    conf = "last_call=0.05,forming_timeout=0.3,connection_grace=0.1,start_timeout=0"
    flags = ("--nnodes", "1:64", "--max-restarts", "1000000", "--rdzv-conf", conf)
    with running_master(tmp_path_factory.mktemp("fuzzed"), *flags) as master:
        yield master
        assert master.alive, master.log
        assert "Traceback" not in master.log, master.log


class Turn:
    """One action of the peer: bytes as they are, or a message in which 0 is replaced by its own
    node and round."""

    def __init__(self, what: bytes | FromAgent) -> None:
        self.what = what

    def __repr__(self) -> str:
        return f"Turn({self.what!r})"


own = st.builds(Fence, st.just(0), st.just(0))
turns = st.one_of(
    samples.anything.map(Turn),
    samples.later_messages(own).map(Turn),
    samples.later_messages().map(Turn),
    samples.hellos(JOB).map(Turn),
)


@given(greeting=st.just(None) | samples.hellos(JOB), turns=st.lists(turns, max_size=12))
@settings(
    max_examples=ROUNDS_OF_FUZZING,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_whatever_a_stranger_says_others_are_not_disturbed(
    fuzzed_master: MasterProcess, greeting: Hello | None, turns: list[Turn]
) -> None:
    asyncio.run(disturb(fuzzed_master, greeting or hello("stranger"), turns))
    assert fuzzed_master.alive, fuzzed_master.log


async def disturb(master: MasterProcess, greeting: Hello, turns: list[Turn]) -> None:
    """Run a bystander that trains while a peer sends its turns; it must still train at the end."""
    async with honest_agent(master.access, "bystander") as bystander:
        await bystander.trains()
        async with stranger(master) as one:
            with suppress(ConnectionError, aiohttp.ClientError):
                await speak(one.socket, greeting, turns)
        await bystander.trains()
        assert not any(bystander.all(kind) for kind in (Fenced, Refused, JobDone))
        assert await asyncio.to_thread(master.node, bystander.node)


async def speak(
    socket: aiohttp.ClientWebSocketResponse, greeting: Hello, turns: list[Turn]
) -> None:
    """Send everything, as long as the connection is open."""
    await socket.send_bytes(encode_from_agent(0, greeting))
    node = number = 0
    for seq, turn in enumerate(turns, start=1):
        node, number = await learn(socket, node, number)
        await socket.send_bytes(bytes_of(turn, Fence(node, number), seq))


async def learn(socket: aiohttp.ClientWebSocketResponse, node: int, number: int) -> tuple[int, int]:
    """The node and round of the peer, from the last message it received."""
    with suppress(asyncio.TimeoutError):
        message = await socket.receive(timeout=0.02)
        if message.type is aiohttp.WSMsgType.BINARY:
            match decode_from_master(message.data).body:
                case Welcome(node=welcomed):
                    return welcomed, number
                case Prepare(round=prepared):
                    return node, prepared
    return node, number


def bytes_of(turn: Turn, own: Fence, seq: int) -> bytes:
    if isinstance(turn.what, bytes):
        return turn.what
    body = turn.what
    if not isinstance(body, Hello) and body.fence == Fence(0, 0):
        kind = type(body)
        fields = {name: getattr(body, name) for name in kind.__struct_fields__}
        body = kind(**{**fields, "fence": own})
    return encode_from_agent(seq, body)


async def test_after_all_this_agents_are_served(fuzzed_master: MasterProcess) -> None:
    await is_served(fuzzed_master)
