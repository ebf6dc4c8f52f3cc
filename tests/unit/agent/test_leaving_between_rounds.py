"""A node that leaves while no round runs first copies what only it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from resile.agent.snapshot_service import SnapshotService
from resile.snapshots.client import AgentSnapshotClient
from resile.snapshots.messages import WorkerHello
from tests.local.snapshots.parts import copy_to, save
from tests.unit.snapshots.nodes import TOKEN, MakeNode, nodes
from tests.unit.snapshots.throttle import throttled

WORKER = WorkerHello(rank=0, local_rank=0, world=2, nproc=1, round=1)
LARGE = 4_000_000


@pytest.fixture
def make() -> Iterator[MakeNode]:
    with nodes() as make:
        yield make


async def test_it_leaves_when_the_next_node_has_its_parts(make: MakeNode) -> None:
    other = make(1)
    snapshots = SnapshotService("127.0.0.1", token=TOKEN)
    memory = await asyncio.to_thread(AgentSnapshotClient, snapshots.name, WORKER)
    with throttled(other.peers.address, rate=4_000_000) as network:
        copy_to(memory, network.address)
        label = save(memory, WORKER, step=10, data=LARGE)
        memory.close()
        await snapshots.secured(timeout=60)
        assert other.has(label)
    snapshots.close()


async def test_it_does_not_wait_for_a_node_that_is_gone_for_ever(make: MakeNode) -> None:
    other = make(1)
    snapshots = SnapshotService("127.0.0.1", token=TOKEN)
    memory = await asyncio.to_thread(AgentSnapshotClient, snapshots.name, WORKER)
    copy_to(memory, other.peers.address)
    other.peers.close()
    save(memory, WORKER, step=10)
    memory.close()
    await asyncio.wait_for(snapshots.secured(timeout=0.3), 30)
    snapshots.close()


async def test_a_node_that_holds_nothing_leaves_at_once() -> None:
    snapshots = SnapshotService("127.0.0.1", token=TOKEN)
    await asyncio.wait_for(snapshots.secured(timeout=1000), 30)
    snapshots.close()
