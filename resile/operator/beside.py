"""Work that goes on beside other work, and whose end nobody may overlook."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any

__all__ = ["beside"]


@contextlib.asynccontextmanager
async def beside(work: Iterable[Awaitable[Any]]) -> AsyncIterator[None]:
    """Run these while the block does.

    None of them ends by itself, unless it has a fault. Then the block is ended, and the fault
    raised: an operator that went on without one of its lists would decide from what is long past,
    while one that ends is started again.
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
            raise faults[0] or RuntimeError("work that never ends has ended")
