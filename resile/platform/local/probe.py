"""Probe ports of this machine without blocking the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from resile.job.addresses import LOOPBACK

__all__ = ["accept_connections"]

CONNECT_TIMEOUT = 1.0
"""Seconds. A local connection takes microseconds, unless the listener's backlog is full."""


async def accept_connections(ports: Iterable[int]) -> bool:
    """Return whether each of ``ports`` accepts a connection, which is closed at once."""
    for port in ports:
        try:
            opening = asyncio.open_connection(LOOPBACK, port)
            _, writer = await asyncio.wait_for(opening, CONNECT_TIMEOUT)
        except (OSError, asyncio.TimeoutError):
            return False
        writer.close()
    return True
