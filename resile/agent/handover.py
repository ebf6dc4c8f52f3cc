"""The agent's part in a handover: ask the workers to save, and report when they have.

A node that was asked to leave offers the others to save first, and leaves when they have or when
the timeout has passed.

Workers that have saved are paused until the handover ends. The master keeps a handover in memory
only, and may die with it. So workers also resume when the master reports on a new connection that
it knows of no handover, when it has been away for :data:`AWAY`, and when their time is up: the
deadline is in shared memory that they read, so this needs no other process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from resile.agent.snapshot_service import SnapshotService
from resile.wire.instructions import HandoverInstruction
from resile.wire.messages import (
    Fence,
    FromAgent,
    HandedOver,
    Handover,
    HandoverCancelled,
    HandoverOver,
    HandoverPublish,
    HandoverPublished,
    HandoverStep,
    HandoverTold,
)
from resile.wire.session import NodeSession

__all__ = ["HandoverParticipant"]

log = logging.getLogger("resile.agent")

AWAY = 2.0
"""Seconds. A live master misses this node after a fraction of that and breaks the round; one that
was restarted has lost the handover. In either case there is no reason left to stay paused."""

_LOOK = 0.1

COPY_TIMEOUT = 5.0
"""Seconds that copies to the next node may delay a planned change in which no node leaves: with
them no step is lost if a node is lost while the next round forms. A leaving node has longer."""


class HandoverParticipant:
    """Takes part in the handovers of this node, across all rounds."""

    def __init__(
        self,
        snapshots: SnapshotService,
        *,
        session: NodeSession,
        say: Callable[[FromAgent], None],
        connected: Callable[[], bool] = lambda: True,
    ) -> None:
        """``connected``: whether there is a connection to the master."""
        self._snapshots = snapshots
        self._session = session
        self._say = say
        self._connected = connected
        self._released = asyncio.Event()
        """Set when all nodes have saved, so that this one may leave."""
        self._tasks: list[asyncio.Task[None]] = []
        """Tasks that report this node's progress to the master."""
        self._number = 0
        """The current handover; 0 for none."""

    def carry_out(self, instruction: HandoverInstruction) -> None:
        """Carry out an instruction of the master."""
        match instruction:
            case Handover():
                self._asked(instruction)
            case HandoverStep(round=round, handover=number):
                self._may_choose(number, round=round)
            case HandoverPublish(handover=number):
                self._publish(number)
            case HandoverOver():
                self.release()
            case HandoverCancelled(reason=reason):
                self.cancel(reason)

    def _asked(self, ask: Handover) -> None:
        """PREPARE: ask the workers to save, and report to the master whether they can."""
        fence, number = self._session.fence, ask.handover
        timeout = self._session.elasticity.longest_hold
        able = self._snapshots.ask_handover(number, round=fence.round, timeout=timeout)
        self._say(HandoverTold(fence=fence, able=able, handover=number))
        self.forget()
        if able:
            log.info("workers are saving a step before a planned change: %s", ask.reason)
            self._number = number
            self._tasks = [
                asyncio.create_task(self._tell(fence, number)),
                asyncio.create_task(self._watch(timeout)),
            ]

    def _may_choose(self, number: int, *, round: int) -> None:
        """CHOOSE: all workers were asked, so the worker of rank 0 may choose the step."""
        if number == self._number:
            self._snapshots.let_choose(number, round=round)

    def _publish(self, number: int) -> None:
        """PUBLISHED: report when the saved step is in storage; copies alone may not be enough."""
        if number == self._number:
            timeout = self._session.elasticity.handover_timeout
            telling = self._tell_published(self._session.fence, number, timeout)
            self._tasks.append(asyncio.create_task(telling))

    def under_way(self, number: int) -> None:
        """Compare with the handover that the master reports on a new connection; 0 for none."""
        if number != self._number:
            self.cancel("the master does not know it")

    def cancel(self, reason: str) -> None:
        """Cancel the handover: paused workers resume."""
        if self._number:
            log.info("planned change cancelled, workers continue: %s", reason)
            self._snapshots.call_off_handover()
            self.forget()

    def release(self) -> None:
        """RELEASE: this node may leave."""
        self._released.set()

    def forget(self) -> None:
        """Drop the handover: its round is over."""
        self._number = 0
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    async def before_leaving(self, reason: str, *, unless: asyncio.Task[int]) -> None:
        """Have what this node holds saved elsewhere before it leaves.

        Returns early when ``unless``, the node's work, is done. May be cancelled: the node then
        leaves without.
        """
        if not self._snapshots.can_hand_over:
            # Between two rounds workers cannot save, but this node may hold the only copy.
            await self._snapshots.secured(timeout=self._session.elasticity.handover_timeout)
        if self._snapshots.can_hand_over and self._session.runs:
            await self._offer(reason, unless=unless)

    async def _offer(self, reason: str, *, unless: asyncio.Task[int]) -> None:
        """Offer all nodes to save before this one leaves, and wait for it."""
        self._released.clear()  # may be set from before this node rejoined
        leaving = self._session.offer_to_leave(reason)
        if leaving is None:
            return
        self._say(leaving)
        release = asyncio.create_task(self._released.wait())
        timeout = self._session.elasticity.leave_timeout
        try:
            await asyncio.wait(
                [release, unless], timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            release.cancel()
            self._session.offer_ended()

    async def _tell(self, fence: Fence, number: int) -> None:
        """SAVED: report the step that all workers hold, and again when it is copied."""
        step = await self._snapshots.handed_over()
        await self._snapshots.copied(step, timeout=COPY_TIMEOUT)
        copied = self._snapshots.newest_copied
        self._say(HandedOver(fence=fence, step=step, copied=copied, handover=number))
        if copied is None or copied < step:
            await self._snapshots.copied(step)
            copied = self._snapshots.newest_copied
            self._say(HandedOver(fence=fence, step=step, copied=copied, handover=number))

    async def _tell_published(self, fence: Fence, number: int, timeout: float) -> None:
        await self._snapshots.flush(timeout, grace=timeout)
        stored = self._snapshots.newest_stored
        self._say(HandoverPublished(fence=fence, stored=stored, handover=number))

    async def _watch(self, timeout: float) -> None:
        """Cancel the handover when it has timed out or the master is away."""
        now = time.monotonic()
        over_at, away_at = now + timeout, now + AWAY
        while now < min(over_at, away_at):
            await asyncio.sleep(_LOOK)
            now = time.monotonic()
            if self._connected():
                away_at = now + AWAY
        self.cancel("it took too long" if now >= over_at else "the master is away")
