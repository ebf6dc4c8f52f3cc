"""A new node's lease begins with its Welcome: before, it has nothing to renew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

import pytest

from resile.job.elasticity import Elasticity
from resile.master import service as service_module
from resile.master.groups import Groups
from resile.master.membership import Membership
from resile.master.records import JobRecord
from resile.master.service import MasterService
from resile.master.state import GroupState
from tests.unit.master.test_service_with_lost_state import NoStore, greeted, hello, settled

LEASE = 5.0


class VirtualClock:
    """Advances only when a test moves it."""

    def __init__(self) -> None:
        self.time = 100.0

    def now(self) -> float:
        return self.time


class SlowStore(NoStore):
    """Takes longer than a lease to store the first records."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._delay = 2 * LEASE

    async def commit(self, changes: Mapping[str, bytes | None]) -> None:
        await super().commit(changes)
        self._clock.time += self._delay
        self._delay = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    made = VirtualClock()
    monkeypatch.setattr(service_module, "RunningClock", lambda: made)
    return made


@pytest.fixture
async def service(clock: VirtualClock) -> AsyncIterator[MasterService]:
    elasticity = Elasticity(min_nodes=3, max_nodes=3, lease=LEASE)
    state = GroupState(JobRecord(job="j", elasticity=elasticity))
    made = MasterService(Groups(Membership(state)), SlowStore(clock))
    running = asyncio.create_task(made.run())
    yield made
    made.leave()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


async def test_the_time_it_takes_to_keep_a_newcomer_is_not_held_against_it(
    service: MasterService, clock: VirtualClock
) -> None:
    await greeted(service, hello("first"))
    welcomed = clock.time
    assert [node.lease_until for node in service.membership.nodes] == [welcomed + LEASE]
    clock.time = welcomed + LEASE - 0.1
    await settled(service)
    assert len(service.membership.nodes) == 1
