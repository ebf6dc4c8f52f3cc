"""The agent's part in a planned change: ask the workers to save, and say when they have.

A node that was asked to leave offers the others to save first, and goes when they have or when the
patience for it is over.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from resile.agent.snapshots import Snapshots
from resile.wire.messages import (
    Fence,
    FromAgent,
    HandedOver,
    HandoverPublished,
    HandoverTold,
    Leaving,
)

__all__ = ["HandoverPart"]

COPY_PATIENCE = 5.0
"""Seconds that copies for the next node may hold up a planned change in which nobody leaves: should
a node be lost while the next round forms, no step is. A node that leaves has longer for them."""


class HandoverPart:
    """One node's, through all rounds."""

    def __init__(self, snapshots: Snapshots, *, say: Callable[[FromAgent], None]) -> None:
        self._snapshots = snapshots
        self._say = say
        self._released = asyncio.Event()
        """Everybody has saved: this node may go."""
        self._tasks: list[asyncio.Task[None]] = []
        """That tell the master how far this node is."""
        self.offered = ""
        """Why this node wants to leave, while it waits for the others: a master that comes back
        meanwhile has to hear it again."""

    def asked(self, fence: Fence) -> None:
        """A change is planned: tell the workers, and the master whether they can save."""
        able = self._snapshots.ask_handover(fence.round)
        self._say(HandoverTold(fence=fence, able=able))
        self.forget()
        if able:
            self._tasks.append(asyncio.create_task(self._tell(fence)))

    def publish(self, fence: Fence, *, patience: float) -> None:
        """Copies alone may not do: say when what was saved is in storage."""
        self._tasks.append(asyncio.create_task(self._tell_published(fence, patience)))

    def released(self) -> None:
        """Whoever wanted to leave may do so."""
        self._released.set()

    def forget(self) -> None:
        """A new round, or none: what was planned is past."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    async def offer(
        self,
        fence: Fence,
        reason: str,
        *,
        patience: float,
        unless: asyncio.Task[int],
        again: asyncio.Queue[signal.Signals],
    ) -> None:
        """Let everybody save before this node goes, if its workers can.

        Ends early when the node's work does, or when it is told a second time to go.
        """
        if not self._snapshots.can_hand_over:
            return
        self.offered = reason
        self._released.clear()  # of an earlier life of this node
        self._say(Leaving(fence=fence, reason=reason))
        released = asyncio.create_task(self._released.wait())
        impatient = asyncio.create_task(again.get())
        await asyncio.wait(
            [released, impatient, unless], timeout=patience, return_when=asyncio.FIRST_COMPLETED
        )
        for task in (released, impatient):
            task.cancel()
        self.offered = ""

    async def _tell(self, fence: Fence) -> None:
        step = await self._snapshots.handed_over()
        await self._snapshots.copied(step, patience=COPY_PATIENCE)
        copied = self._snapshots.newest_copied
        self._say(HandedOver(fence=fence, step=step, copied=copied))
        if copied is None or copied < step:
            await self._snapshots.copied(step)
            self._say(HandedOver(fence=fence, step=step, copied=self._snapshots.newest_copied))

    async def _tell_published(self, fence: Fence, patience: float) -> None:
        await self._snapshots.flush(patience, grace=patience)
        self._say(HandoverPublished(fence=fence, stored=self._snapshots.newest_stored))
