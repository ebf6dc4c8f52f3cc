"""Messages that are late, duplicate, or in another node's name: refused without any effect."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from resile.wire.codec import encode_from_agent
from resile.wire.messages import (
    PROTOCOL,
    Fence,
    Fenced,
    FromAgent,
    JobDone,
    Leave,
    Prepare,
    Ready,
    Refused,
    Renew,
    Start,
    StoreAddress,
    Welcome,
    WorkerFailure,
    WorkersFailed,
    WorkersReached,
    WorkersSucceeded,
)
from tests.local.wire.masters import MasterProcess, running_master
from tests.local.wire.pretend import (
    Stranger,
    hello,
    honest_agent,
    is_served,
    packed,
    stranger,
    until,
)

STORE = StoreAddress("127.0.0.1", 1)
FAILURE = WorkerFailure(local_rank=0, rank=0, pid=1, exit_code=1)


def every_message(fence: Fence) -> list[FromAgent]:
    """One message of each kind that changes something."""
    return [
        Ready(fence=fence, store=STORE),
        WorkersFailed(fence=fence, failures=(FAILURE,)),
        WorkersSucceeded(fence=fence),
        WorkersReached(fence=fence, reached=(), missing=(0,)),
    ]


async def joined(one: Stranger, name: str = "stranger") -> int:
    """Make a peer join as a node; returns its id."""
    await one.say(hello(name))
    return (await one.hear_kind(Welcome)).node


async def test_a_frame_sent_twice_is_refused(master: MasterProcess) -> None:
    async with honest_agent(master.access) as bystander, stranger(master) as one:
        await bystander.trains()
        node = await joined(one)
        again = encode_from_agent(2, Renew(fence=Fence(node, 0)))
        await one.socket.send_bytes(again)
        await one.socket.send_bytes(again)
        assert "frame 2 was sent before" in (await one.refusal()).reason
        await bystander.trains(world=1)
        assert bystander.is_undisturbed()


async def test_an_older_frame_is_refused_as_well(master: MasterProcess) -> None:
    async with stranger(master) as one:
        node = await joined(one)
        await one.say(Renew(fence=Fence(node, 0)), seq=1_000)
        await one.say(Renew(fence=Fence(node, 0)), seq=999)
        assert "frame 999 was sent before" in (await one.refusal()).reason


async def test_a_second_hello_is_refused(master: MasterProcess) -> None:
    async with stranger(master) as one:
        await joined(one)
        await one.say(hello("somebody else"))
        assert "only one Hello" in (await one.hear_kind(Refused)).reason


async def test_nobody_speaks_for_another_node(master: MasterProcess) -> None:
    async with honest_agent(master.access) as victim, stranger(master) as one:
        await victim.trains()
        node = await joined(one)
        theirs = Fence(victim.node, victim.round)
        for message in [
            *every_message(theirs),
            Renew(fence=theirs),
            Leave(fence=theirs, reason=""),
        ]:
            await one.say(message)
            reason = (await one.hear_kind(Refused)).reason
            assert reason == f"this connection belongs to node {node}, not node {victim.node}"
        assert (await asyncio.to_thread(master.node, victim.node)) is not None
        assert victim.is_undisturbed()


async def test_nobody_takes_over_another_node(master: MasterProcess) -> None:
    async with honest_agent(master.access, "victim") as victim, stranger(master) as one:
        await victim.trains()
        await one.say(hello("stranger", held=Fence(victim.node, victim.round)))
        assert isinstance(await one.hear(), Fenced)
        assert await one.hear() is None
        shown = await asyncio.to_thread(master.node, victim.node)
        assert shown is not None
        assert not shown.away
        assert victim.is_undisturbed()


async def test_messages_of_a_round_that_is_over_change_nothing(master: MasterProcess) -> None:
    async with honest_agent(master.access, "first") as first:
        old = (await first.trains(world=1)).round
        async with honest_agent(master.access, "second") as second:
            await first.trains(world=2)
            await second.trains(world=2)
            for count, message in enumerate(every_message(Fence(first.node, old))):
                await first.send(message)
                refusal = await first.hears(Refused, more_than=count)
                assert f"round {old} is over" in refusal.reason
            shown = await asyncio.to_thread(master.status)
            assert shown.phase == "running"
            assert shown.round == first.round
            assert shown.restarts == 0
            assert second.is_undisturbed()


async def test_messages_of_a_round_to_come_change_nothing(master: MasterProcess) -> None:
    async with honest_agent(master.access) as agent:
        await agent.trains()
        before = await asyncio.to_thread(master.status)
        for count, message in enumerate(every_message(Fence(agent.node, 2**50))):
            await agent.send(message)
            await agent.hears(Refused, more_than=count)
        assert (await asyncio.to_thread(master.status)).round == before.round


async def test_a_node_that_was_put_out_is_told_so_whatever_it_says(tmp_path: Path) -> None:
    conf = "last_call=0.1,lease=0.5"
    with running_master(tmp_path, "--nnodes", "1:8", "--rdzv-conf", conf) as master:
        async with honest_agent(master.access) as bystander, stranger(master) as one:
            node = await joined(one)
            assert isinstance(await one.hear_kind(Fenced), Fenced)
            assert await one.hear() is None
        async with honest_agent(master.access) as bystander, stranger(master) as late:
            await late.say(hello("stranger", held=Fence(node, 1)))
            refusal = await late.hear()
            assert isinstance(refusal, Fenced)
            assert f"node {node} was evicted" in refusal.reason
            assert await late.hear() is None
            await bystander.trains()
            assert bystander.is_undisturbed()


async def test_what_follows_a_refused_hello_is_not_heard(master: MasterProcess) -> None:
    async with honest_agent(master.access) as bystander, stranger(master) as one:
        await bystander.trains()
        await one.say(hello(job="another job"))
        await one.say(Leave(fence=Fence(bystander.node, bystander.round), reason="not yours"))
        refusal = await one.hear_kind(Refused)
        assert refusal.final
        assert "not 'another job'" in refusal.reason
        while await one.hear() is not None:
            continue
        assert (await asyncio.to_thread(master.node, bystander.node)) is not None


@pytest.mark.parametrize("complete", [True, False])
async def test_another_version_of_the_protocol_is_refused_by_number(
    master: MasterProcess, complete: bool
) -> None:
    later = PROTOCOL + 1
    async with stranger(master) as one:
        if complete:
            await one.say(hello(protocol=later))
        else:
            # A possible later version: this one's fields are missing.
            body = {"type": "Hello", "protocol": later, "who": {"id": "x"}}
            await one.socket.send_bytes(packed({"seq": 1, "body": body}))
        refusal = await one.refusal()
    assert refusal.final
    assert f"protocol {PROTOCOL}" in refusal.reason
    assert f"the agent {later}" in refusal.reason


async def test_a_store_host_that_names_no_store_harms_only_its_round(tmp_path: Path) -> None:
    conf = "last_call=5,forming_timeout=0.5"
    with running_master(tmp_path, "--nnodes", "2:2", "--rdzv-conf", conf) as master:
        async with stranger(master) as host, stranger(master) as other:
            node, second = await joined(host, "host"), await joined(other, "other")
            prepare = await host.hear_kind(Prepare)
            assert prepare.host_store
            await host.say(Ready(fence=Fence(node, prepare.round), store=None))
            assert "gave no address of it" in (await host.hear_kind(Refused)).reason
            await other.say(Ready(fence=Fence(second, prepare.round), store=None))
            assert "not ready" in (await host.hear_kind(Fenced)).reason
        async with honest_agent(master.access, "a") as one, honest_agent(master.access, "b") as two:
            await one.trains(world=2)
            await two.trains(world=2)
        assert master.alive, master.log


async def test_ranks_of_other_nodes_are_not_a_nodes_to_report(tmp_path: Path) -> None:
    conf = "last_call=5,start_timeout=0.2,verdict_window=0.1"
    flags = ("--nnodes", "2:2", "--max-restarts", "0", "--rdzv-conf", conf)
    with running_master(tmp_path, *flags) as master:
        async with honest_agent(master.access, "a") as one, honest_agent(master.access, "b") as two:
            await one.trains(world=2)
            await two.trains(world=2)
            ours = two.all(Start)[-1].first_rank
            await one.send(WorkersReached(fence=one.fence, reached=(1 - ours,), missing=()))
            await two.send(WorkersReached(fence=two.fence, reached=(), missing=(1 - ours, 4095)))
            assert "are not all of node" in (await two.hears(Refused)).reason
            await two.send(WorkersReached(fence=two.fence, reached=(), missing=(ours,)))
            done = await one.hears(JobDone)
            assert done.report is not None
            assert done.report.failure.rank == ours


async def test_after_all_this_agents_are_served(master: MasterProcess) -> None:
    await until(lambda: _is_empty(master), "the last nodes of these tests to be out")
    await is_served(master)


async def _is_empty(master: MasterProcess) -> bool:
    return not (await asyncio.to_thread(master.status)).nodes
