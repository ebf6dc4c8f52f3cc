"""Frames that are not messages: refused with a reason, without effect on others."""

from __future__ import annotations

import asyncio
import random
import struct
from contextlib import suppress

import aiohttp
import msgspec
import pytest

from resile.wire.codec import MAX_FRAME, encode_from_agent
from resile.wire.messages import Fence, Renew, Welcome
from tests.local.wire.masters import MasterProcess
from tests.local.wire.pretend import (
    Stranger,
    hello,
    honest_agent,
    is_served,
    packed,
    stranger,
    until,
)

WHOLE = encode_from_agent(1, hello())


def changed(**fields: object) -> bytes:
    """A Hello with invalid values in some fields; ``info__name`` is info's name."""
    frame = msgspec.msgpack.decode(WHOLE)
    for path, value in fields.items():
        place = frame["body"]
        *way, last = path.split("__")
        for step in way:
            place = place[step]
        place[last] = value
    return packed(frame)


GARBAGE = {
    "nothing": b"",
    "random bytes": random.Random(7).randbytes(3000),
    "a cut message": WHOLE[: len(WHOLE) // 2],
    "a message and more": WHOLE + b"\x00",
    "json": b'{"seq": 1, "body": {"type": "Hello"}}',
    "another type": packed([1, 2, 3]),
    "no body": packed({"seq": 1}),
    "an unknown message": packed({"seq": 1, "body": {"type": "Format"}}),
    "a message of the master's": packed({"seq": 1, "body": {"type": "Fenced", "reason": "x"}}),
    "a text for a number": changed(info__nproc="4"),
    "no workers": changed(info__nproc=0),
    "a negative number": changed(info__nproc=-1),
    "a huge number of workers": changed(info__nproc=2**63),
    "a huge rank": changed(info__rank=2**64 - 1),
    "a negative sequence": packed({"seq": -1, "body": msgspec.msgpack.decode(WHOLE)["body"]}),
    "a huge array of nothing": changed(failures=[]).replace(b"\x90", b"\xdd\xff\xff\xff\xff"),
    "too many failures": changed(failures=[{}] * 5000),
    "deep nesting": b"\x82\xa3seq\x01\xa4body" + b"\x91" * 100_000 + b"\xc0",
    "deep maps": b"\x81\xa1x" * 50_000,
    "a name of many lines": changed(info__name="a\nresile 00:00:00 the job succeeded"),
    "a name that moves the cursor": changed(info__name="a\x1b[2J"),
    "a long name": changed(info__name="a" * 10_000),
    "no name": changed(info__name=""),
    "an address with a zero": changed(info__address="127.0.0.1\0"),
    "MIN above MAX": changed(elasticity__min_nodes=5, elasticity__max_nodes=2),
    "time that is no number": changed(elasticity__lease=float("nan")),
    "time without end": changed(elasticity__lease=float("inf")),
    "no time at all": changed(elasticity__lease=1e-300),
    "a huge job": changed(elasticity__max_nodes=2**63),
    "a fence below zero": changed(held={"node": -1, "round": 0}),
    "a state that is none": changed(state="asleep"),
    "a store at no port": changed(store={"host": "127.0.0.1", "port": 70_000}),
    "an extension type": b"\xc7\x08\x05" + struct.pack(">Q", 1),
    "a timestamp": b"\xd7\xff" + struct.pack(">Q", 1),
    "text that is no UTF-8": packed({"seq": 1}).replace(b"seq", b"s\xffq"),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
async def test_garbage_instead_of_a_hello_is_refused(master: MasterProcess, data: bytes) -> None:
    async with stranger(master) as one:
        await one.socket.send_bytes(data)
        refusal = await one.refusal()
    assert refusal.final
    assert "not a message of this protocol" in refusal.reason
    assert len(refusal.reason) < 400


async def test_after_all_that_garbage_agents_are_served(master: MasterProcess) -> None:
    await is_served(master)


async def test_garbage_in_the_middle_ends_only_the_connection_it_came_on(
    master: MasterProcess,
) -> None:
    async with honest_agent(master.access) as bystander:
        await bystander.trains()
        async with stranger(master) as one:
            node = await joined(one)
            await one.socket.send_bytes(random.Random(8).randbytes(500))
            refusal = await one.refusal()
        assert not refusal.final
        await bystander.trains(world=1)
        assert bystander.is_undisturbed()
        assert (await asyncio.to_thread(master.node, bystander.node)) is not None
        await until(lambda: is_out(master, node), "the end of the node that sent garbage")


async def test_a_text_frame_is_refused(master: MasterProcess) -> None:
    async with stranger(master) as one:
        await one.socket.send_str("hello")
        assert "text frames" in (await one.refusal()).reason


async def test_a_first_frame_that_is_no_hello_is_refused(master: MasterProcess) -> None:
    async with stranger(master) as one:
        await one.say(Renew(fence=Fence(0, 0)))
        refusal = await one.refusal()
    assert "must be a Hello, not Renew" in refusal.reason
    assert refusal.final


async def test_silence_instead_of_a_hello_is_refused_after_a_while(master: MasterProcess) -> None:
    async with stranger(master) as one:
        await is_served(master)
        assert "no Hello within" in (await one.refusal()).reason


@pytest.mark.parametrize("first", [True, False])
async def test_an_oversized_message_is_refused(master: MasterProcess, first: bool) -> None:
    async with stranger(master) as one:
        if not first:
            await joined(one)
        await one.socket.send_bytes(bytes(MAX_FRAME + 1))
        refusal = await one.refusal()
    assert f"over the limit of {MAX_FRAME}" in refusal.reason
    await is_served(master)


@pytest.mark.parametrize("first", [True, False])
async def test_a_message_larger_than_anything_just_ends_the_connection(
    master: MasterProcess, first: bool
) -> None:
    async with stranger(master) as one:
        if not first:
            await joined(one)
        with suppress(ConnectionError):
            await one.socket.send_bytes(bytes(64 * MAX_FRAME))
        while await one.hear() is not None:
            continue
    await is_served(master)


async def test_fragments_that_add_up_to_too_much_are_refused_as_well(
    master: MasterProcess,
) -> None:
    async with stranger(master) as one:
        with suppress(ConnectionError):
            await one.socket.send_frame(b"", aiohttp.WSMsgType.BINARY)
            for _ in range(64):
                await one.socket.send_frame(bytes(65536), aiohttp.WSMsgType.CONTINUATION)
        while await one.hear() is not None:
            continue
    await is_served(master)


async def joined(one: Stranger) -> int:
    """Make a peer join as a node; returns its id."""
    await one.say(hello("stranger"))
    return (await one.hear_kind(Welcome)).node


async def is_out(master: MasterProcess, node: int) -> bool:
    """Whether a node is no longer in the job."""
    return await asyncio.to_thread(master.node, node) is None
