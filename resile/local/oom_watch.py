"""Kill nodes that are out of memory, as a whole.

The kernel may have killed only one worker, which the node's agent would restart again and again;
and where memory is polled the kernel has not done anything. So all nodes with a memory limit are
checked every ``POLL_INTERVAL`` seconds, for as long as there are any.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from resile.local.limits.node_limits import POLL_INTERVAL
from resile.local.node_record import LocalNodeRecord
from resile.system.process_tree import list_processes

__all__ = ["OomWatch"]

log = logging.getLogger("resile.platform")


class OomWatch:
    """Watches the nodes that ``running`` returns."""

    def __init__(self, running: Callable[[], list[LocalNodeRecord]]) -> None:
        self._running = running
        self._task: asyncio.Task[None] | None = None

    def wake(self) -> None:
        """Start watching; called when a node has started."""
        asleep = self._task is None or self._task.done()
        if asleep and self._limited():
            self._task = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Stop watching."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _limited(self) -> list[LocalNodeRecord]:
        """Return the nodes with a limit that have not exceeded it so far."""
        return [
            record
            for record in self._running()
            if record.limits.memory_limit is not None and not record.out_of_memory
        ]

    async def _watch(self) -> None:
        while limited := self._limited():
            polled = any(record.limits.is_watched for record in limited)
            processes = list_processes() if polled else {}
            for record in limited:
                why = record.limits.why_out_of_memory(partial(record.tree, processes))
                if why and record.process is not None:
                    record.out_of_memory = why
                    log.info("%s is out of memory: %s", record.order.node.name, why)
                    record.process.kill()
            await asyncio.sleep(POLL_INTERVAL)
