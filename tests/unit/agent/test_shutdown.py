"""Requests to shut a node down, their urgency, and what the node waits for before it leaves."""

from __future__ import annotations

import asyncio
import signal
from typing import cast

from resile.agent.handover import HandoverParticipant
from resile.agent.shutdown import ShutdownRequests
from resile.agent.snapshot_service import SnapshotService
from resile.job.elasticity import Elasticity
from resile.wire.messages import FromAgent, Leaving
from resile.wire.session import NodeSession
from tests.unit.wire.sessions import run_round, session


async def taken(shutdown: ShutdownRequests) -> list[signal.Signals]:
    """Every pending request."""
    found: list[signal.Signals] = []
    while True:
        request = asyncio.ensure_future(shutdown.requested())
        for _ in range(3):
            await asyncio.sleep(0)
        if not request.done():
            request.cancel()
            return found
        found.append(request.result())


async def test_a_second_signal_is_of_somebody_in_a_hurry() -> None:
    shutdown = ShutdownRequests()
    shutdown.signalled(signal.SIGTERM)
    shutdown.signalled(signal.SIGTERM)
    assert await taken(shutdown) == [signal.SIGTERM, signal.SIGTERM]


async def test_a_platform_that_ends_a_drained_node_is_not_in_a_hurry() -> None:
    shutdown = ShutdownRequests()
    shutdown.drain()
    shutdown.begin()
    shutdown.signalled(signal.SIGTERM)
    assert await taken(shutdown) == [signal.SIGTERM]
    shutdown.signalled(signal.SIGTERM)
    assert await taken(shutdown) == [signal.SIGTERM]


async def test_a_person_is_in_a_hurry_at_once() -> None:
    shutdown = ShutdownRequests()
    shutdown.drain()
    shutdown.signalled(signal.SIGINT)
    assert await taken(shutdown) == [signal.SIGTERM, signal.SIGINT]


async def test_a_node_that_is_leaving_is_not_asked_again() -> None:
    shutdown = ShutdownRequests()
    shutdown.signalled(signal.SIGTERM)
    assert not shutdown.under_way
    shutdown.begin()
    assert shutdown.under_way
    shutdown.drain()
    assert await taken(shutdown) == [signal.SIGTERM]


async def test_a_second_request_cuts_short_what_the_node_waits_for() -> None:
    shutdown = ShutdownRequests()
    work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(shutdown.unless_requested_again(work))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not waiting.done()
    shutdown.signalled(signal.SIGTERM)
    await waiting
    assert work.cancelled()
    assert await taken(shutdown) == []


class Able:
    """Workers that can save."""

    can_hand_over = True


def running() -> NodeSession:
    member = session(elasticity=Elasticity(handover_timeout=250))
    run_round(member)
    return member


async def test_what_released_a_node_in_an_earlier_life_does_not_release_it_again() -> None:
    said: list[FromAgent] = []
    member = running()
    part = HandoverParticipant(cast(SnapshotService, Able()), session=member, say=said.append)
    part.release()
    work: asyncio.Task[int] = asyncio.ensure_future(asyncio.sleep(600, 0))
    offering = asyncio.ensure_future(part.before_leaving("SIGTERM", unless=work))
    while not said:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not offering.done()
    assert member.hello(now=0).leaving == "SIGTERM"
    part.release()
    await offering
    work.cancel()
    assert isinstance(said[0], Leaving)
    assert member.hello(now=0).leaving == ""


async def test_a_node_in_a_hurry_says_no_longer_that_it_waits() -> None:
    said: list[FromAgent] = []
    member, shutdown = running(), ShutdownRequests()
    part = HandoverParticipant(cast(SnapshotService, Able()), session=member, say=said.append)
    work: asyncio.Task[int] = asyncio.ensure_future(asyncio.sleep(600, 0))
    offer = part.before_leaving("SIGTERM", unless=work)
    leaving = asyncio.ensure_future(shutdown.unless_requested_again(offer))
    while not said:
        await asyncio.sleep(0)
    shutdown.signalled(signal.SIGTERM)
    await leaving
    assert member.hello(now=0).leaving == ""
    assert not work.done()
    work.cancel()
