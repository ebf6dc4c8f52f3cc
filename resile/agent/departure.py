"""Who asks this node to leave, and how urgently."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable

__all__ = ["Departure"]


class Departure:
    """Requests to leave: signals, and the master's. The second one is of somebody in a hurry."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[signal.Signals] = asyncio.Queue()
        """What was asked and not yet heeded."""

        self.under_way = False
        """The node is leaving."""

        self._drained = False

    def signalled(self, name: signal.Signals) -> None:
        """A signal came. A platform that ends a node which the master had asked to leave says it
        for the first time, and is in no hurry."""
        if self._drained and name is signal.SIGTERM:
            self._drained = False
        else:
            self.asked.put_nowait(name)

    def drain(self) -> None:
        """The master asks the node to leave; one that is leaving does so already."""
        if not self.under_way:
            self._drained = True
            self.asked.put_nowait(signal.SIGTERM)

    async def unless_asked_again(self, work: Awaitable[object]) -> None:
        """Wait for ``work``, unless somebody asks once more: the rest of it is given up."""
        working = asyncio.ensure_future(work)
        asked = asyncio.create_task(self.asked.get())
        await asyncio.wait([working, asked], return_when=asyncio.FIRST_COMPLETED)
        for task in (working, asked):
            task.cancel()
        await asyncio.gather(working, asked, return_exceptions=True)
