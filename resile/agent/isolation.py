"""Is this node cut off from everybody? Then its job may go on elsewhere, and it must not.

A master that hears nothing of a node for a lease puts it out, and another node takes its place. The
node cannot be told. So it finds out by itself: when neither the master nor another node of its
round could be reached for a lease and a margin, its workers are stopped.

A master that died is no reason to stop. What counts is whether anything answers at all: the
master's machine that refuses a connection, or another node of the round, shows that this node is
not cut off. The other nodes are the one that hosts the round's store and the next one in the order
of ranks; a round that has lost one of these is broken anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass

from resile.wire.clock import PULSE, RunningClock
from resile.wire.endpoint import Endpoint, parse_endpoint
from resile.wire.messages import Start

__all__ = ["MARGIN", "CutOff", "Isolation", "is_reachable", "others_than_this_node"]

MARGIN = 5.0
"""Seconds beyond the lease. The job goes on elsewhere a lease after the last sign of life; two
rounds train at once for so long at most."""

PROBE_TIMEOUT = 0.9
"""Seconds for one attempt to reach somebody. Many of them have to fail."""


@dataclass(frozen=True)
class CutOff:
    """Nobody could be reached for so many seconds."""

    seconds: float


class Isolation:
    """Watches whether anybody can be reached."""

    def __init__(
        self,
        *,
        answers: Callable[[], int],
        others: Callable[[], Collection[Endpoint]],
        lease: Callable[[], float],
    ) -> None:
        """``answers`` grows whenever the master is heard; ``others`` are all that may be probed,
        the master included."""
        self._answers = answers
        self._others = others
        self._lease = lease

    async def watch(self, report: Callable[[CutOff], None]) -> None:
        """Report each time that nobody has been reached for too long."""
        clock = RunningClock()
        contact, answers = clock.now(), -1
        while True:
            now = clock.now()
            if self._answers() != answers:
                contact, answers = now, self._answers()
            if now - contact >= self._lease() and await anybody_answers(self._others()):
                contact = clock.now()
            alone = clock.now() - contact
            if alone > self._lease() + MARGIN:
                report(CutOff(alone))
                contact = clock.now()
            await asyncio.sleep(PULSE)


def others_than_this_node(master: Endpoint, part: Start | None) -> list[Endpoint]:
    """Whom a node may probe: the master, and in a round the host of its store and the next node."""
    found = [master]
    if part is not None and part.store.hosted and part.group_rank != 0:
        found.append(Endpoint(part.store.host, part.store.port))
    if part is not None and part.neighbour:
        found.append(parse_endpoint(part.neighbour))
    return found


async def anybody_answers(endpoints: Collection[Endpoint]) -> bool:
    """Whether anything is there behind one of these addresses."""
    probes = [asyncio.create_task(is_reachable(endpoint)) for endpoint in endpoints]
    return any(await asyncio.gather(*probes))


async def is_reachable(endpoint: Endpoint) -> bool:
    """Whether a connection is accepted or refused there, rather than lost in the dark."""
    try:
        opening = asyncio.open_connection(endpoint.host, endpoint.port)
        _, writer = await asyncio.wait_for(opening, PROBE_TIMEOUT)
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    except socket.gaierror as error:
        # A name server says that nobody has this name now, as of a master that is being replaced.
        return error.errno == socket.EAI_NONAME
    except (OSError, asyncio.TimeoutError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
