"""Readiness of a descriptor for reading or writing, for any descriptor number.

``select.select`` fails for descriptors from 1024 on, which a long-lived agent with many connections
has.
"""

from __future__ import annotations

import select
from typing import Protocol

__all__ = ["is_readable", "wait_writable"]


class HasDescriptor(Protocol):
    """A socket, a file, a connection."""

    def fileno(self) -> int:
        """Its descriptor."""


def is_readable(source: HasDescriptor) -> bool:
    """Whether a read would return now, with data or the end of the stream."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(0))


def wait_writable(descriptor: int) -> None:
    """Wait until the descriptor is writable."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    poll.poll()
