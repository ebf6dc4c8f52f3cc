"""Whether a descriptor can be read or written, for any descriptor.

``select.select`` fails for descriptors from 1024 on, which a long-lived agent with many connections
does have.
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
    """Whether there is something to read now, if only the end."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    return bool(poll.poll(0))


def wait_writable(descriptor: int) -> None:
    """Wait until something can be written."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    poll.poll()
