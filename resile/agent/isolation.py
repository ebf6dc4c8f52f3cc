"""Detects that this node is cut off from all others, so that it stops training.

A master that has not heard from a node for a lease evicts it, and another node takes its place. The
evicted node cannot be notified, so it finds out by itself: when neither the master nor another node
of its round could be reached for a lease and a margin, its workers are stopped.

The death of the master alone is not a reason to stop. The node is not cut off if anything answers:
the master's machine with a refused connection, or another node of the round. The nodes that are
probed are the one that hosts the round's store and the next one in the order of ranks; a round that
has lost one of these is broken anyway.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass

from resile.system.clock import PULSE, RunningClock
from resile.wire.endpoint import Endpoint, parse_endpoint
from resile.wire.messages import Start

__all__ = ["MARGIN", "CutOff", "Isolation", "is_reachable", "probe_targets"]

MARGIN = 5.0
"""Seconds beyond the lease. The job continues elsewhere one lease after the last sign of life, so
two rounds train at the same time for so long at most."""

PROBE_TIMEOUT = 0.9
"""Timeout of one probe, in seconds. Many of them have to fail."""


@dataclass(frozen=True)
class CutOff:
    """The event that no other node could be reached for so many seconds."""

    seconds: float


class Isolation:
    """Watches whether the master or another node can be reached."""

    def __init__(
        self,
        *,
        answers: Callable[[], int],
        others: Callable[[], Collection[Endpoint]],
        lease: Callable[[], float],
    ) -> None:
        """``answers`` grows with every message from the master; ``others`` are the endpoints that
        may be probed, the master included."""
        self._answers = answers
        self._others = others
        self._lease = lease

    async def watch(self, report: Callable[[CutOff], None]) -> None:
        """Report each time that no endpoint has answered for too long."""
        clock = RunningClock()
        contact, answers = clock.now(), -1
        while True:
            now = clock.now()
            if self._answers() != answers:
                contact, answers = now, self._answers()
            if now - contact >= self._lease() and await any_reachable(self._others()):
                contact = clock.now()
            alone = clock.now() - contact
            if alone > self._lease() + MARGIN:
                report(CutOff(alone))
                contact = clock.now()
            await asyncio.sleep(PULSE)


def probe_targets(master: Endpoint, part: Start | None) -> list[Endpoint]:
    """The endpoints to probe: the master and, in a round, the store's host and the next node."""
    found = [master]
    if part is not None and part.store.hosted and part.group_rank != 0:
        found.append(Endpoint(part.store.host, part.store.port))
    if part is not None and part.neighbour:
        found.append(parse_endpoint(part.neighbour))
    return found


async def any_reachable(endpoints: Collection[Endpoint]) -> bool:
    """Whether any of these endpoints answers."""
    probes = [asyncio.create_task(is_reachable(endpoint)) for endpoint in endpoints]
    return any(await asyncio.gather(*probes))


async def is_reachable(endpoint: Endpoint) -> bool:
    """Whether a connection is accepted or refused there, rather than timing out."""
    try:
        opening = asyncio.open_connection(endpoint.host, endpoint.port)
        _, writer = await asyncio.wait_for(opening, PROBE_TIMEOUT)
    except (ConnectionRefusedError, ConnectionResetError):
        return True
    except socket.gaierror as error:
        # A name server answered that the name is unknown, as while a master is being replaced.
        return error.errno == socket.EAI_NONAME
    except (OSError, asyncio.TimeoutError):
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True
