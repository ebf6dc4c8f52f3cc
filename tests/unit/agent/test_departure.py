"""Who asks a node to leave, and how urgently."""

from __future__ import annotations

import asyncio
import signal
from typing import cast

from resile.agent.departure import Departure
from resile.agent.handover import HandoverPart
from resile.agent.snapshots import Snapshots
from resile.wire.messages import Fence, FromAgent, Leaving


def asked(departure: Departure) -> list[signal.Signals]:
    return [departure.asked.get_nowait() for _ in range(departure.asked.qsize())]


async def test_a_second_signal_is_of_somebody_in_a_hurry() -> None:
    departure = Departure()
    departure.signalled(signal.SIGTERM)
    departure.signalled(signal.SIGTERM)
    assert asked(departure) == [signal.SIGTERM, signal.SIGTERM]


async def test_a_platform_that_ends_a_drained_node_is_not_in_a_hurry() -> None:
    departure = Departure()
    departure.drain()
    departure.under_way = True
    departure.signalled(signal.SIGTERM)
    assert asked(departure) == [signal.SIGTERM]
    departure.signalled(signal.SIGTERM)
    assert asked(departure) == [signal.SIGTERM]


async def test_a_person_is_in_a_hurry_at_once() -> None:
    departure = Departure()
    departure.drain()
    departure.signalled(signal.SIGINT)
    assert asked(departure) == [signal.SIGTERM, signal.SIGINT]


async def test_a_node_that_is_leaving_is_not_asked_again() -> None:
    departure = Departure()
    departure.signalled(signal.SIGTERM)
    departure.under_way = True
    departure.drain()
    assert asked(departure) == [signal.SIGTERM]


class Able:
    """Workers that can save."""

    can_hand_over = True


async def test_what_released_a_node_in_an_earlier_life_does_not_release_it_again() -> None:
    said: list[FromAgent] = []
    part = HandoverPart(cast(Snapshots, Able()), say=said.append)
    part.released()
    work: asyncio.Task[int] = asyncio.ensure_future(asyncio.sleep(600, 0))
    again: asyncio.Queue[signal.Signals] = asyncio.Queue()
    offering = asyncio.ensure_future(
        part.offer(Fence(1, 1), "SIGTERM", patience=600, unless=work, again=again)
    )
    while not said:
        await asyncio.sleep(0)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not offering.done()
    assert part.offered == "SIGTERM"
    part.released()
    await offering
    work.cancel()
    assert isinstance(said[0], Leaving)
    assert part.offered == ""
