"""A master that lost its state, from its connections' view: messages to each node, and its ids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

import pytest

from resile.job.elasticity import Elasticity
from resile.master.groups import Groups
from resile.master.membership import Membership
from resile.master.records import JobRecord
from resile.master.service import MasterService
from resile.master.shard_handler import ShardRequestHandler
from resile.master.state import GroupState
from resile.shards.protocol import (
    Begin,
    DatasetSpec,
    Introduce,
    Lease,
    NotAccepted,
    NotYet,
    digest_of,
)
from resile.shards.spans import Spans
from resile.wire.messages import (
    Fence,
    Fenced,
    FromMaster,
    Hello,
    LocalState,
    NodeInfo,
    Prepare,
    Refused,
    Start,
    StoreAddress,
    Welcome,
)
from resile.wire.server import Peer

SPEC = DatasetSpec(sizes=(100,), shard_size=10)
BEGIN = Begin(dataset="d", spec=SPEC, digest=digest_of(SPEC, epoch=0, done=[Spans()]), done=((),))
LEASE = Lease(dataset="d", epoch=0, number=7, records=10)


class PretendPeer(Peer):
    """Records the messages it receives."""

    def __init__(self) -> None:
        self.told: list[FromMaster] = []
        self.closed = False

    def send(self, body: FromMaster) -> None:
        self.told.append(body)

    def close(self) -> None:
        self.closed = True


class NoStore:
    """Stores nothing."""

    async def load(self) -> dict[str, bytes]:
        return {}

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        assert changes

    async def close(self) -> None: ...

    async def erase(self) -> None: ...


def hello(name: str, *, round: int = 0, size: int = 1, rank: int = 0) -> Hello:
    """A new node; or, with a round, a node of the forgotten job."""
    start = Start(
        round=round,
        group_rank=rank,
        group_world_size=size,
        first_rank=rank,
        world_size=size,
        store=StoreAddress("a", 1),
        restart_count=0,
        max_restarts=3,
    )
    return Hello(
        job="j",
        info=NodeInfo(name=name, host="h", address="a", nproc=1),
        elasticity=Elasticity(),
        held=Fence(rank, round) if round else None,
        state=LocalState.RUNNING if round else LocalState.IDLE,
        start=start if round else None,
        seen=round,
    )


@pytest.fixture
async def service() -> AsyncIterator[MasterService]:
    elasticity = Elasticity(min_nodes=1, max_nodes=2, last_call=60)
    state = GroupState(JobRecord(job="j", elasticity=elasticity))
    made = MasterService(Groups(Membership(state)), NoStore())
    running = asyncio.create_task(made.run())
    yield made
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def settled(service: MasterService) -> None:
    """Wait until everything that was posted is processed, and sent."""
    await service.carry_out(lambda _now: None)
    await service.carry_out(lambda _now: None)


async def resumed(service: MasterService, name: str = "old", *, round: int = 3) -> PretendPeer:
    """A node of the forgotten job comes, is asked to come again, and does."""
    for answer in (Refused, Welcome):
        peer = await greeted(service, hello(name, round=round))
        assert isinstance(peer.told[0], answer)
    return peer


async def greeted(service: MasterService, greeting: Hello) -> PretendPeer:
    peer = PretendPeer()
    service.greeted(peer, greeting)
    await settled(service)
    return peer


async def test_a_newcomers_dismissal_does_not_reach_the_node_whose_id_it_had(
    service: MasterService,
) -> None:
    fresh = await greeted(service, hello("fresh"))
    old, again = PretendPeer(), PretendPeer()
    assert list(service.peers) == [("", 0)]
    # All in one moment, in which the recall begins and is over.
    service.greeted(old, hello("old", round=3))
    service.greeted(again, hello("old", round=3))
    await settled(service)
    assert isinstance(fresh.told[-1], Fenced)
    assert fresh.closed
    for peer in (old, again):
        assert [type(message) for message in peer.told] == [Refused]
    back = await greeted(service, hello("old", round=3))
    assert [type(message) for message in back.told] == [Welcome]
    assert service.membership.round.number == 3


async def test_a_master_that_is_being_told_what_it_forgot_is_not_lonely(
    service: MasterService,
) -> None:
    await greeted(service, hello("old", round=3, size=2))
    assert service.membership.recovering
    assert service.ever_joined
    assert service.emptied_at is None


async def test_whoever_heard_of_later_events_is_told_the_new_story(service: MasterService) -> None:
    await resumed(service)
    events = await service.events_after(57, timeout=5)
    assert events[0].seq == 1
    assert "lost its state" in events[0].text


@pytest.mark.parametrize("request_", [BEGIN, LEASE])
async def test_leases_of_a_recalled_round_are_not_guessed(
    service: MasterService, request_: Begin | Lease
) -> None:
    desk = ShardRequestHandler(service)
    worker = desk.arrived(Introduce(client="rank-0", round=3, rank=0))
    assert isinstance(await desk.answer(worker, request_), NotYet), "nobody has come yet"
    agent = await resumed(service)
    assert isinstance(await desk.answer(worker, request_), NotYet)
    await settled(service)
    prepare = next(message for message in agent.told if isinstance(message, Prepare))
    assert prepare.round == 4
    assert "leases of its data were lost" in prepare.reason
    assert service.membership.job.restarts == 0
    late = await desk.answer(worker, request_)
    assert isinstance(late, NotAccepted)
    assert late.stale


async def test_a_client_without_rounds_is_told_that_its_data_is_forgotten(
    service: MasterService,
) -> None:
    desk = ShardRequestHandler(service)
    client = desk.arrived(Introduce(client="c"))
    answer = await desk.answer(client, LEASE)
    assert isinstance(answer, NotAccepted)
    assert "'d' was lost with the master's state" in answer.reason
