"""Requests to shut this node down, and the rule for a second one.

The first request starts a graceful shutdown, which may take minutes: other nodes save, workers exit
in their own time, the last checkpoint is written. A second request skips whatever the node is
waiting for at that moment. The whole rule is in this module; no other code looks at the requests.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Iterable

__all__ = ["INTERACTIVE_SIGNALS", "ShutdownRequests"]

INTERACTIVE_SIGNALS = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""Signals of a person at a terminal: other nodes are not asked to save before this one leaves."""


class ShutdownRequests:
    """Requests to leave, by signals and by the master."""

    def __init__(self) -> None:
        self._requests: asyncio.Queue[signal.Signals] = asyncio.Queue()
        """Requests that are not handled yet."""

        self._drained = False
        self._under_way = False

    @property
    def under_way(self) -> bool:
        """Whether the node is leaving."""
        return self._under_way

    def listen(self, names: Iterable[signal.Signals]) -> None:
        """Handle these signals as requests from now on."""
        loop = asyncio.get_running_loop()
        for name in names:
            # Under nohup the agent is meant to outlive the terminal.
            if name is not signal.SIGHUP or signal.getsignal(name) is not signal.SIG_IGN:
                loop.add_signal_handler(name, self.signalled, name)

    def signalled(self, name: signal.Signals) -> None:
        """Handle a signal. SIGTERM from the platform, after the master asked the node to leave, is
        the same request and does not count as a second one."""
        if self._drained and name is signal.SIGTERM:
            self._drained = False
        else:
            self._requests.put_nowait(name)

    def drain(self) -> None:
        """Handle the master's request to leave; no effect if the node is leaving already."""
        if not self._under_way:
            self._drained = True
            self._requests.put_nowait(signal.SIGTERM)

    async def requested(self) -> signal.Signals:
        """Wait for a request and return it."""
        return await self._requests.get()

    def begin(self) -> None:
        """Start the shutdown: every further request counts as a second one."""
        self._under_way = True

    async def unless_requested_again(self, work: Awaitable[object]) -> None:
        """Wait for ``work``; cancel it if there is another request."""
        working = asyncio.ensure_future(work)
        asked = asyncio.create_task(self.requested())
        await asyncio.wait([working, asked], return_when=asyncio.FIRST_COMPLETED)
        for task in (working, asked):
            task.cancel()
        await asyncio.gather(working, asked, return_exceptions=True)
