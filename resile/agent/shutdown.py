"""Requests that this node leave, and what a second one means.

The first request begins an orderly departure, which may take minutes: others save, workers end in
their own time, the last checkpoint is written. A second one is of somebody in a hurry and cuts
short whatever the node waits for at that moment. All of this rule is here; nobody else looks at
the requests.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Iterable

__all__ = ["IN_A_HURRY", "ShutdownRequests"]

IN_A_HURRY = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""Signals of a person at a terminal: others are not asked to save before the node leaves."""


class ShutdownRequests:
    """Requests to leave: signals, and the master's."""

    def __init__(self) -> None:
        self._requests: asyncio.Queue[signal.Signals] = asyncio.Queue()
        """Those that nobody has heeded yet."""

        self._drained = False
        self._under_way = False

    @property
    def under_way(self) -> bool:
        """Whether the node is leaving."""
        return self._under_way

    def listen(self, names: Iterable[signal.Signals]) -> None:
        """Take these signals as requests from now on."""
        loop = asyncio.get_running_loop()
        for name in names:
            # Whoever started this with nohup wants it to outlive the terminal.
            if name is not signal.SIGHUP or signal.getsignal(name) is not signal.SIG_IGN:
                loop.add_signal_handler(name, self.signalled, name)

    def signalled(self, name: signal.Signals) -> None:
        """A signal came. A platform that ends a node which the master had asked to leave says it
        for the first time, and is in no hurry."""
        if self._drained and name is signal.SIGTERM:
            self._drained = False
        else:
            self._requests.put_nowait(name)

    def drain(self) -> None:
        """The master asks the node to leave; one that is leaving does so already."""
        if not self._under_way:
            self._drained = True
            self._requests.put_nowait(signal.SIGTERM)

    async def requested(self) -> signal.Signals:
        """Wait for a request, and take it."""
        return await self._requests.get()

    def begin(self) -> None:
        """The node is leaving from now on: every further request is a second one."""
        self._under_way = True

    async def unless_asked_again(self, work: Awaitable[object]) -> None:
        """Wait for ``work``, unless somebody asks once more: the rest of it is given up."""
        working = asyncio.ensure_future(work)
        asked = asyncio.create_task(self.requested())
        await asyncio.wait([working, asked], return_when=asyncio.FIRST_COMPLETED)
        for task in (working, asked):
            task.cancel()
        await asyncio.gather(working, asked, return_exceptions=True)
