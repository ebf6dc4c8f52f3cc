"""A master that is asked to stop does, whatever happens at that moment."""

from __future__ import annotations

import asyncio
import time

import pytest

from resile.job.elasticity import Elasticity
from resile.master.groups import Groups
from resile.master.membership import Membership
from resile.master.records import JobRecord
from resile.master.service import MasterService
from resile.master.state import GroupState
from tests.unit.master.test_service_with_lost_state import NoStore


@pytest.mark.parametrize("turns", range(5))
async def test_a_message_that_comes_with_the_end_does_not_hold_it_up(turns: int) -> None:
    membership = Membership(GroupState(JobRecord(job="train", elasticity=Elasticity())))
    membership.want(2, now=time.monotonic())  # there is a deadline to wait for
    service = MasterService(Groups(membership), NoStore())  # type: ignore[arg-type]
    deciding = asyncio.create_task(service.run())
    for _ in range(10):
        await asyncio.sleep(0)
    service.post(lambda _now: None)
    for _ in range(turns):
        await asyncio.sleep(0)
    service.leave()
    deciding.cancel()
    done, _ = await asyncio.wait([deciding], timeout=5)
    assert done
