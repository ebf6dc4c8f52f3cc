"""The connection to the master in a thread of its own, so that the agent's loop cannot block it.

A node that does not renew its lease in time is evicted. A busy event loop of the agent (a disk that
hangs, a huge file) must not cost the lease, so the connection and its renewals run on another event
loop. The agent's state is read on the agent's own loop, where it does not change meanwhile; only
the few fields of a renewal are read in this thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

from resile.wire.client import Access
from resile.wire.link import Link
from resile.wire.messages import FromAgent, FromMaster, Hello

__all__ = ["LinkThread"]

CLOSE_LIMIT = 2.0
"""Seconds for closing the connection, which takes one at most."""


class LinkThread:
    """A :class:`Link` that is used from the agent's loop and runs on a loop of its own."""

    def __init__(
        self,
        access: Access,
        *,
        hello: Callable[[], Hello],
        renewal: Callable[[], FromAgent | None],
        deliver: Callable[[FromMaster], None],
        revive: Callable[[], Awaitable[str]] | None,
        give_up_after: Callable[[], float],
    ) -> None:
        """The arguments are those of a Link. ``renewal`` and ``give_up_after`` are called in the
        thread, the others on the loop that runs :meth:`run`."""
        self._hello = hello
        self._deliver = deliver
        self._revive = revive
        self._link = Link(
            access,
            hello=self._ask_hello,
            renewal=renewal,
            deliver=self._pass_on,
            revive=self._ask_to_revive if revive else None,
            give_up_after=give_up_after,
        )
        self._outside: asyncio.AbstractEventLoop | None = None
        self._inside: asyncio.AbstractEventLoop | None = None
        self._sent = 0
        self._told = 0
        """Number of sent messages whose content is part of the latest Hello."""

    @property
    def connected(self) -> bool:
        """Whether there is a connection on which a master has answered."""
        return self._link.connected

    @property
    def answers(self) -> int:
        """A counter of messages from the master."""
        return self._link.answers

    def send(self, message: FromAgent) -> None:
        """Queue a message. It may be dropped: the next Hello has the same content."""
        self._sent += 1
        self._in_thread(functools.partial(self._send, self._sent, message))

    def hang_up(self) -> None:
        """Close the connection: the next one begins with the agent's present state."""
        self._in_thread(self._link.hang_up)

    def rejoin(self) -> None:
        """Join as a new node, once the agent has stopped its workers."""
        self._in_thread(self._link.rejoin)

    async def flush(self) -> None:
        """Wait a moment for queued messages to be sent."""
        if self._inside is not None:
            flushing = asyncio.run_coroutine_threadsafe(self._link.flush(), self._inside)
            await asyncio.wait([asyncio.wrap_future(flushing)], timeout=CLOSE_LIMIT)

    async def run(self) -> None:
        """Keep the connection up until the job is over.

        Raises RefusedByPeer or MasterUnreachable.
        """
        self._outside = asyncio.get_running_loop()
        self._inside = asyncio.new_event_loop()
        running = self._inside.create_task(self._link.run())
        ended: Future[None] = Future()
        thread = threading.Thread(
            target=_run, args=(self._inside, running, ended), name="master link", daemon=True
        )
        thread.start()
        try:
            await asyncio.shield(asyncio.wrap_future(ended))
        finally:
            self._in_thread(running.cancel)
            if not ended.done():
                await asyncio.wait([asyncio.wrap_future(ended)], timeout=CLOSE_LIMIT)

    # --- in the thread ----------------------------------------------------------------------

    def _send(self, number: int, message: FromAgent) -> None:
        if number > self._told:
            self._link.send(message)

    def _ask_hello(self) -> Hello:
        """Wait for a Hello from the agent's loop: before it there is no lease to renew."""
        answer: Future[tuple[Hello, int]] = Future()

        def ask() -> None:
            try:
                answer.set_result((self._hello(), self._sent))
            except BaseException as error:
                answer.set_exception(error)

        self._on_agents_loop(ask)
        hello, self._told = answer.result()
        return hello

    async def _ask_to_revive(self) -> str:
        assert self._revive is not None
        assert self._outside is not None

        async def revive() -> str:
            return await self._revive() if self._revive else ""

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(revive(), self._outside))

    def _pass_on(self, message: FromMaster) -> None:
        self._on_agents_loop(lambda: self._deliver(message))

    def _on_agents_loop(self, callback: Callable[[], None]) -> None:
        assert self._outside is not None
        self._outside.call_soon_threadsafe(callback)

    def _in_thread(self, callback: Callable[[], object]) -> None:
        """Run a callback in the thread, in order; do nothing if the thread is not running."""
        if self._inside is not None:
            with contextlib.suppress(RuntimeError):  # raised when the loop is closed
                self._inside.call_soon_threadsafe(callback)


def _run(loop: asyncio.AbstractEventLoop, running: asyncio.Task[None], ended: Future[None]) -> None:
    """Run the link to its end and pass on the outcome. The body of the thread."""
    try:
        loop.run_until_complete(running)
    except asyncio.CancelledError:
        ended.set_result(None)
    except BaseException as error:
        ended.set_exception(error)
    else:
        ended.set_result(None)
    finally:
        loop.close()
