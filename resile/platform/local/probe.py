"""Whether somebody listens on this machine's ports, asked without holding up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from resile.job.addresses import LOOPBACK

__all__ = ["accept_connections"]

CONNECT_TIMEOUT = 1.0
"""A connection to this machine takes microseconds, unless its listener has too many waiting."""


async def accept_connections(ports: Iterable[int]) -> bool:
    """Whether each of ``ports`` accepts a connection, which is closed at once."""
    for port in ports:
        try:
            opening = asyncio.open_connection(LOOPBACK, port)
            _, writer = await asyncio.wait_for(opening, CONNECT_TIMEOUT)
        except (OSError, asyncio.TimeoutError):
            return False
        writer.close()
    return True
