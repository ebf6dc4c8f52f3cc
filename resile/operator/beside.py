"""Background tasks that must not end while a block runs (TaskGroup needs Python 3.11)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any

__all__ = ["running_alongside"]


@contextlib.asynccontextmanager
async def running_alongside(work: Iterable[Awaitable[Any]]) -> AsyncIterator[None]:
    """Run these tasks while the block runs.

    None of them returns, except by an error. Then the block is cancelled and the error raised: an
    operator that continued without one of its informers would decide from stale data, while one
    that exits is restarted.
    """
    block = asyncio.current_task()
    tasks = [asyncio.ensure_future(one) for one in work]

    def ended(task: asyncio.Future[Any]) -> None:
        if not task.cancelled() and block is not None:
            block.cancel()

    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    finally:
        faults = [task.exception() for task in tasks if task.done() and not task.cancelled()]
        for task in tasks:
            task.remove_done_callback(ended)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if faults:
            raise faults[0] or RuntimeError("a background task returned unexpectedly")
