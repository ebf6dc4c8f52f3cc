"""The line to the master in a thread of its own, so that nothing on the agent's loop can stop it.

A node that does not renew its lease in time is evicted. Whatever keeps the agent's event loop busy
(a disk that hangs, a file that is huge) must not cost the lease, so the connection and its renewals
live on another event loop. What the agent holds is asked for on the agent's own loop, where it does
not change meanwhile; only the small facts of a renewal are read from here.
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
"""Seconds to say goodbye to the master; a connection takes one at most to close."""


class LinkThread:
    """A :class:`Link` that is used from the agent's loop and runs on its own."""

    def __init__(
        self,
        access: Access,
        *,
        hello: Callable[[], Hello],
        renewal: Callable[[], FromAgent | None],
        deliver: Callable[[FromMaster], None],
        revive: Callable[[], Awaitable[str]] | None,
        patience: Callable[[], float],
    ) -> None:
        """As of a Link. ``renewal`` and ``patience`` are called in the thread, the others on the
        loop of whoever calls :meth:`run`."""
        self._hello = hello
        self._deliver = deliver
        self._revive = revive
        self._link = Link(
            access,
            hello=self._ask_hello,
            renewal=renewal,
            deliver=self._pass_on,
            revive=self._ask_to_revive if revive else None,
            patience=patience,
        )
        self._outside: asyncio.AbstractEventLoop | None = None
        self._inside: asyncio.AbstractEventLoop | None = None
        self._sent = 0
        self._told = 0
        """How many of the messages that were sent are part of the latest Hello."""

    @property
    def connected(self) -> bool:
        """Whether there is a connection that a master has answered on."""
        return self._link.connected

    @property
    def answers(self) -> int:
        """Grows whenever the master is heard."""
        return self._link.answers

    def send(self, message: FromAgent) -> None:
        """Say something soon, or never: the next Hello tells the same."""
        self._sent += 1
        self._in_thread(functools.partial(self._send, self._sent, message))

    def hang_up(self) -> None:
        """End the connection: the next one begins with what the agent holds now."""
        self._in_thread(self._link.hang_up)

    def rejoin(self) -> None:
        """The agent has stopped what it held: join as a new node."""
        self._in_thread(self._link.rejoin)

    async def flush(self) -> None:
        """Wait a moment for the last words to be out."""
        if self._inside is not None:
            flushing = asyncio.run_coroutine_threadsafe(self._link.flush(), self._inside)
            await asyncio.wait([asyncio.wrap_future(flushing)], timeout=CLOSE_LIMIT)

    async def run(self) -> None:
        """Keep the line up until the job is over. Raises RefusedByPeer or MasterGone."""
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
        """Wait for the agent's loop: until it has said what it holds there is nothing to renew."""
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
        """Have it called in the thread, in order; nothing happens before and after its life."""
        if self._inside is not None:
            with contextlib.suppress(RuntimeError):  # raised when the loop is closed
                self._inside.call_soon_threadsafe(callback)


def _run(loop: asyncio.AbstractEventLoop, running: asyncio.Task[None], ended: Future[None]) -> None:
    """The thread: runs the link to its end and hands on how that was."""
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
