"""The agent's part in a planned change: ask the workers to save, and say when they have.

A node that was asked to leave offers the others to save first, and goes when they have or when the
patience for it is over.

Workers that have saved hold still, so somebody has to end that. A master keeps its handover in
memory only, and may die with it. So workers go on when the master says at a new connection that it
knows of no handover, when it has been away for :data:`AWAY`, and when their time is over, which is
written on the page they look at and needs nobody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from resile.agent.snapshots import Snapshots
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

__all__ = ["HandoverPart"]

log = logging.getLogger("resile.agent")

AWAY = 2.0
"""A master that lives misses this node after a fraction of that, and breaks the round; one that
died has forgotten the handover. In either case there is nothing left to hold for."""

_LOOK = 0.1

COPY_PATIENCE = 5.0
"""Seconds that copies for the next node may hold up a planned change in which nobody leaves: should
a node be lost while the next round forms, no step is. A node that leaves has longer for them."""


class HandoverPart:
    """One node's, through all rounds."""

    def __init__(
        self,
        snapshots: Snapshots,
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
        """Everybody has saved: this node may go."""
        self._tasks: list[asyncio.Task[None]] = []
        """That tell the master how far this node is."""
        self._number = 0
        """The handover that the workers are asked for; 0 for none."""

    def carry_out(self, instruction: HandoverInstruction) -> None:
        """Do what the master says about a planned change."""
        match instruction:
            case Handover():
                self._asked(instruction)
            case HandoverStep(round=round, handover=number):
                self._may_choose(number, round=round)
            case HandoverPublish(handover=number):
                self._publish(number)
            case HandoverOver():
                self.released()
            case HandoverCancelled(reason=reason):
                self.called_off(reason)

    def _asked(self, ask: Handover) -> None:
        """A change is planned: tell the workers, and the master whether they can save."""
        fence, number = self._session.fence, ask.handover
        patience = self._session.elasticity.longest_hold
        able = self._snapshots.ask_handover(number, round=fence.round, patience=patience)
        self._say(HandoverTold(fence=fence, able=able, handover=number))
        self.forget()
        if able:
            log.info("workers save a step before a planned change: %s", ask.reason)
            self._number = number
            self._tasks = [
                asyncio.create_task(self._tell(fence, number)),
                asyncio.create_task(self._watch(patience)),
            ]

    def _may_choose(self, number: int, *, round: int) -> None:
        """Everybody was asked: the worker of rank 0 may choose the step."""
        if number == self._number:
            self._snapshots.let_choose(number, round=round)

    def _publish(self, number: int) -> None:
        """Copies alone may not do: say when what was saved is in storage."""
        if number == self._number:
            patience = self._session.elasticity.handover_timeout
            telling = self._tell_published(self._session.fence, number, patience)
            self._tasks.append(asyncio.create_task(telling))

    def under_way(self, number: int) -> None:
        """The master says at a new connection which handover it knows of; 0 for none."""
        if number != self._number:
            self.called_off("the master knows nothing of it")

    def called_off(self, reason: str) -> None:
        """The planned change does not happen: workers that hold go on."""
        if self._number:
            log.info("no planned change any more, workers go on: %s", reason)
            self._snapshots.call_off_handover()
            self.forget()

    def released(self) -> None:
        """Whoever wanted to leave may do so."""
        self._released.set()

    def forget(self) -> None:
        """A new round, or none: what was planned is past."""
        self._number = 0
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()

    async def before_leaving(self, reason: str, *, unless: asyncio.Task[int]) -> None:
        """Have what this node holds saved elsewhere before it goes.

        Ends early when ``unless``, the node's work, does. May be cancelled: then the node goes
        without.
        """
        if not self._snapshots.can_hand_over:
            # Between two rounds nobody can save, but this node may hold what others do not.
            await self._snapshots.secured(patience=self._session.elasticity.handover_timeout)
        if self._snapshots.can_hand_over and self._session.runs:
            await self._offer(reason, unless=unless)

    async def _offer(self, reason: str, *, unless: asyncio.Task[int]) -> None:
        """Let everybody save, and wait for it."""
        self._released.clear()  # of an earlier life of this node
        leaving = self._session.offer_to_leave(reason)
        if leaving is None:
            return
        self._say(leaving)
        released = asyncio.create_task(self._released.wait())
        patience = self._session.elasticity.leave_timeout
        try:
            await asyncio.wait(
                [released, unless], timeout=patience, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            released.cancel()
            self._session.offer_ended()

    async def _tell(self, fence: Fence, number: int) -> None:
        step = await self._snapshots.handed_over()
        await self._snapshots.copied(step, patience=COPY_PATIENCE)
        copied = self._snapshots.newest_copied
        self._say(HandedOver(fence=fence, step=step, copied=copied, handover=number))
        if copied is None or copied < step:
            await self._snapshots.copied(step)
            copied = self._snapshots.newest_copied
            self._say(HandedOver(fence=fence, step=step, copied=copied, handover=number))

    async def _tell_published(self, fence: Fence, number: int, patience: float) -> None:
        await self._snapshots.flush(patience, grace=patience)
        stored = self._snapshots.newest_stored
        self._say(HandoverPublished(fence=fence, stored=stored, handover=number))

    async def _watch(self, patience: float) -> None:
        """Call the handover off when nobody is there any more who would end it."""
        now = time.monotonic()
        over_at, away_at = now + patience, now + AWAY
        while now < min(over_at, away_at):
            await asyncio.sleep(_LOOK)
            now = time.monotonic()
            if self._connected():
                away_at = now + AWAY
        self.called_off("it took too long" if now >= over_at else "the master is away")
