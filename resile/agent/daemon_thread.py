"""Run file operations without blocking the event loop.

A disk can take seconds to answer, a network disk may never. The work is done in a daemon thread, so
that the process can exit meanwhile; it would wait for asyncio's own threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["run_in_daemon_thread"]

T = TypeVar("T")


async def run_in_daemon_thread(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread and return its result."""
    outcome: Future[T] = Future()

    def do() -> None:
        try:
            result = work()
        except BaseException as error:
            if outcome.set_running_or_notify_cancel():
                outcome.set_exception(error)
        else:
            if outcome.set_running_or_notify_cancel():
                outcome.set_result(result)

    threading.Thread(target=do, name="disk", daemon=True).start()
    return await asyncio.wrap_future(outcome)
