"""An event loop in a thread of its own, for callers that do not use asyncio.

In a thread, because a caller may have a running loop already (a notebook has), and because several
logs have to be read at the same time while the caller prints. The thread never keeps a process
alive.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["LoopThread", "run_in_thread"]

T = TypeVar("T")


class LoopThread:
    """Runs coroutines in a background thread until :meth:`close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(_report)
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="resile-client", daemon=True
        )
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of ``work``; an interrupted caller cancels it."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Start ``work`` and do not wait for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def close(self) -> None:
        """Cancel everything that was started, and end the thread."""
        if self._thread.is_alive():
            self.call(_cancel_others())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


def run_in_thread(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of ``work``, run in an event loop of its own."""
    loop = LoopThread()
    try:
        return loop.call(work)
    finally:
        loop.close()


def _report(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Report as usual, except for connections that were not closed: a script may simply end."""
    if not {"client_session", "connector"} & context.keys():
        loop.default_exception_handler(context)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
