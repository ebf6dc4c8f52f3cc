"""Connections of several groups to one master: messages and data are kept separate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec
import pytest

from resile.job.elasticity import Elasticity
from resile.master.groups import Groups
from resile.master.membership import Membership
from resile.master.metrics import metrics_text
from resile.master.records import JobRecord
from resile.master.service import MasterService
from resile.master.shard_handler import ShardRequestHandler
from resile.master.state import GroupState
from resile.master.training_view import training_view, trainings
from resile.shards.protocol import Begun, Introduce, Leased, NotAccepted, NotYet
from resile.wire.messages import (
    Fence,
    Prepare,
    Progress,
    Ready,
    Refused,
    Renew,
    Start,
    StoreAddress,
    Welcome,
    WorkersSucceeded,
)
from tests.unit.master.test_service_with_lost_state import (
    BEGIN,
    LEASE,
    NoStore,
    PretendPeer,
    greeted,
    hello,
    settled,
)

EVALUATE = "evaluate"


@pytest.fixture
async def service() -> AsyncIterator[MasterService]:
    state = GroupState(JobRecord(job="j", elasticity=Elasticity()))
    made = MasterService(Groups(Membership(state)), NoStore())
    running = asyncio.create_task(made.run())
    yield made
    made.leave()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def trains(service: MasterService, name: str, *, group: str = "") -> PretendPeer:
    """A node that runs round 1 of its group alone."""
    peer = await greeted(service, msgspec.structs.replace(hello(name), group=group))
    assert {type(message) for message in peer.told} == {Welcome, Prepare}
    service.received(peer, Ready(fence=Fence(0, 1), store=StoreAddress("a", 1)))
    await settled(service)
    assert isinstance(peer.told[-1], Start)
    return peer


async def test_the_same_id_in_two_groups_is_two_nodes(service: MasterService) -> None:
    main, other = await trains(service, "a"), await trains(service, "b", group=EVALUATE)
    assert set(service.peers) == {("", 0), (EVALUATE, 0)}
    service.received(other, WorkersSucceeded(fence=Fence(0, 1)))
    await settled(service)
    assert service.membership.training
    assert len(main.told) == 3, "the main group hears nothing of it"
    service.closed(main)
    await settled(service)
    assert set(service.peers) == {(EVALUATE, 0)}


async def test_a_node_cannot_speak_for_another_of_its_group(service: MasterService) -> None:
    peer = await trains(service, "a", group=EVALUATE)
    service.received(peer, Renew(fence=Fence(1, 1)))
    await settled(service)
    assert isinstance(peer.told[-1], Refused)


async def test_every_group_has_its_own_view_and_figures(service: MasterService) -> None:
    main, other = await trains(service, "a"), await trains(service, "b", group=EVALUATE)
    service.received(main, Renew(fence=Fence(0, 1), progress=Progress(step=7)))
    service.received(other, Renew(fence=Fence(0, 1), progress=Progress(step=3, loss=0.5)))
    await settled(service)
    shown = trainings(service)
    assert list(shown) == ["", EVALUATE]
    assert shown[""] == training_view(service)
    assert (shown[""].group, shown[""].step, shown[""].loss) == ("", 7, None)
    assert list(shown[""].nodes) == ["a"]
    assert (shown[EVALUATE].group, shown[EVALUATE].step) == (EVALUATE, 3)
    (node,) = shown[EVALUATE].nodes.values()
    assert (node.name, node.group, node.round, node.step) == ("b", EVALUATE, 1, 3)
    text = metrics_text(service).decode()
    assert 'resile_step{group=""} 7.0' in text
    assert f'resile_step{{group="{EVALUATE}"}} 3.0' in text


async def test_agents_that_share_a_name_are_both_shown(service: MasterService) -> None:
    await trains(service, "a")
    await greeted(service, hello("a"))
    assert [node.name for node in training_view(service).nodes.values()] == ["a", "a"]


async def test_ranks_of_two_groups_take_each_from_their_own(service: MasterService) -> None:
    await trains(service, "a")
    await trains(service, "b", group=EVALUATE)
    desk = ShardRequestHandler(service)
    workers = [
        desk.arrived(Introduce(client="rank-0", round=1, rank=0, group=group))
        for group in ("", EVALUATE)
    ]
    for worker in workers:
        assert isinstance(await desk.answer(worker, BEGIN), Begun)
    lease = msgspec.structs.replace(LEASE, number=1)
    taken = [await desk.answer(worker, lease) for worker in workers]
    for answer in taken:
        assert isinstance(answer, Leased)
        assert [shard.start for shard in answer.shards] == [0]
    assert len(service.shards.datasets) == 2


async def test_a_worker_is_fenced_by_the_round_of_its_own_group(service: MasterService) -> None:
    await trains(service, "a")
    other = await trains(service, "b", group=EVALUATE)
    desk = ShardRequestHandler(service)
    late, unknown, main = (
        desk.arrived(Introduce(client="rank-0", round=1, group=group))
        for group in (EVALUATE, "nobody's", "")
    )
    service.received(other, WorkersSucceeded(fence=Fence(0, 1)))
    await settled(service)
    refused = await desk.answer(late, BEGIN)
    assert isinstance(refused, NotAccepted)
    assert refused.stale
    assert isinstance(await desk.answer(unknown, BEGIN), NotYet)
    assert isinstance(await desk.answer(main, BEGIN), Begun)
    assert service.groups.get("nobody's") is None, "workers make no groups"


async def test_clients_without_rounds_share_whatever_their_groups(service: MasterService) -> None:
    desk = ShardRequestHandler(service)
    clients = [
        desk.arrived(Introduce(client=f"c-{number}", group=group))
        for number, group in enumerate(("", "worker/0", "worker/1"))
    ]
    starts = []
    for client in clients:
        assert isinstance(await desk.answer(client, BEGIN), Begun)
        answer = await desk.answer(client, msgspec.structs.replace(LEASE, number=1))
        assert isinstance(answer, Leased)
        starts += [shard.start for shard in answer.shards]
    assert sorted(starts) == sorted(set(starts)), "no record twice"
    assert len(service.shards.datasets) == 1


async def test_one_name_is_not_used_with_rounds_and_without(service: MasterService) -> None:
    await trains(service, "b", group=EVALUATE)
    desk = ShardRequestHandler(service)
    assert isinstance(await desk.answer(desk.arrived(Introduce(client="c")), BEGIN), Begun)
    worker = desk.arrived(Introduce(client="rank-0", round=1, group=EVALUATE))
    refused = await desk.answer(worker, BEGIN)
    assert isinstance(refused, NotAccepted)
    assert "with rounds by some and without by others" in refused.reason
