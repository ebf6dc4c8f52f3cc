"""The connection to the master, in its own thread beside torchrun's.

torchrun's agent blocks and sleeps; the lease must be renewed meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from resile.wire.client import Access
from resile.wire.errors import WireError
from resile.wire.link import Link
from resile.wire.messages import FromAgent, FromMaster, Hello

FAREWELL = 5.0
"""Seconds to wait for the last messages to be sent, when the master hangs."""


class TorchrunLinkThread:
    """Keeps a :class:`Link` up from :meth:`open` to :meth:`close`; all methods are thread-safe."""

    def __init__(
        self,
        access: Access,
        *,
        hello: Callable[[], Hello],
        renewal: Callable[[], FromAgent | None],
        deliver: Callable[[FromMaster], None],
        give_up_after: Callable[[], float],
        broken: Callable[[WireError], None],
    ) -> None:
        """As for a Link; ``broken`` is called when the master is unreachable. All of these are
        called from the line's thread."""
        self._link = Link(
            access,
            hello=hello,
            renewal=renewal,
            deliver=deliver,
            revive=None,
            give_up_after=give_up_after,
        )
        self._broken = broken
        self._loop = asyncio.new_event_loop()
        self._talking: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="resile-line", daemon=True)

    def open(self) -> None:
        """Start to connect."""
        self._thread.start()

    def send(self, message: FromAgent) -> None:
        """Queue a message; it may be lost, as the next Hello carries the same state."""
        self._call(self._link.send, message)

    def rejoin(self) -> None:
        """Join as a new node, once the workers of the evicted one are stopped."""
        self._call(self._link.rejoin)

    def close(self) -> None:
        """Send the pending messages and disconnect."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):
                asyncio.run_coroutine_threadsafe(self._finish(), self._loop)
            self._thread.join(FAREWELL)

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        # A closed line (the job is over) accepts nothing, and needs nothing.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *arguments)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._talk())
        finally:
            self._loop.close()

    async def _talk(self) -> None:
        self._talking = asyncio.current_task()
        try:
            await self._link.run()
        except WireError as error:
            self._broken(error)
        except asyncio.CancelledError:
            return

    async def _finish(self) -> None:
        await self._link.flush()
        if self._talking is not None:
            self._talking.cancel()
