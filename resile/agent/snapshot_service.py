"""The snapshots of this node, held in the agent's memory from its start to its end.

The memory belongs to the agent, so it outlives workers and rounds and is freed with the agent,
however that ends. All work is done in threads and in a process of its own: the agent's event loop
never blocks.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time

from resile.snapshots.listener import SnapshotListener
from resile.snapshots.peer_api import NoPeers, PeerApi
from resile.snapshots.peers import Peers
from resile.snapshots.server import SnapshotServer
from resile.snapshots.slot_table import SlotTable
from resile.snapshots.writer import WriterProcess

__all__ = [
    "SnapshotService",
]


log = logging.getLogger("resile.agent")

_LOOK = 0.02
"""Poll interval, in seconds, while waiting until everything is written."""

_HELD_LOOK = 0.005
"""The same while workers are paused for a handover: every millisecond counts."""

_SAY_AFTER = 1.0
"""Seconds of waiting after which a line is logged."""


class SnapshotService:
    """Holds the node's snapshots. ``address``: where other nodes' agents reach this one."""

    def __init__(self, address: str, *, token: str, limit: int | None = None) -> None:
        slots, self._writer = SlotTable(limit=limit), WriterProcess()
        self._keeper = SnapshotServer(
            slots,
            self._writer,
            peers=_open_peers(address, token=token, slots=slots, writer=self._writer),
            news=log.log,
        )
        self._server = SnapshotListener(self._keeper)

    @property
    def name(self) -> str:
        """The value of RESILE_SNAPSHOTS."""
        return self._server.name

    @property
    def peer_address(self) -> str:
        """Where other nodes' agents reach this one; empty if they cannot."""
        return self._keeper.peers.address

    def new_round(self, number: int) -> None:
        """Ignore workers of older rounds from now on."""
        self._keeper.new_round(number)

    @property
    def can_hand_over(self) -> bool:
        """Whether all workers can save before a planned change."""
        return self._keeper.can_hand_over

    def ask_handover(self, number: int, *, round: int, timeout: float) -> bool:
        """Ask the workers to save before a planned change; return whether all of them can."""
        return self._keeper.ask_handover(number, round=round, timeout=timeout)

    def let_choose(self, number: int, *, round: int) -> None:
        """Let the worker of rank 0 choose the step: the workers of all nodes were asked."""
        self._keeper.let_choose(number, round=round)

    def call_off_handover(self) -> None:
        """Cancel the handover: paused workers resume."""
        self._keeper.call_off_handover()

    async def handed_over(self) -> int:
        """Wait until all workers hold a step; return it."""
        while (step := self._keeper.held) is None:
            await asyncio.sleep(_HELD_LOOK)
        return step

    async def copied(self, step: int, *, timeout: float = math.inf) -> None:
        """Wait until the next node has copies of all parts of a step, if there is a node that takes
        them, at most ``timeout`` seconds."""
        give_up = time.monotonic() + timeout
        while not self._keeper.is_copied(step) and time.monotonic() < give_up:
            await asyncio.sleep(_HELD_LOOK)

    @property
    def newest_copied(self) -> int | None:
        """The newest step of which the next node has copies of all parts of this node."""
        return self._keeper.newest_copied

    @property
    def newest_stored(self) -> int | None:
        """The newest step of which this node's parts are in storage; on the node that publishes,
        the newest complete checkpoint."""
        return self._keeper.newest_stored

    async def secured(self, *, timeout: float) -> None:
        """Wait until what this node holds is copied to the next, or else is in storage, at most
        ``timeout`` seconds for each of the two."""
        give_up = time.monotonic() + timeout
        while self._keeper.copies_pending and time.monotonic() < give_up:
            await asyncio.sleep(_LOOK)
        if self._keeper.copies_pending:
            await self.flush(timeout, grace=timeout)

    async def flush(self, timeout: float, *, grace: float) -> None:
        """Wait until all requested checkpoints are written, at most ``timeout`` seconds.

        ``grace``: how long to wait for other nodes' parts once this node's are written.
        """
        started = written = time.monotonic()
        said = False
        while self._writer.publishes:
            now = time.monotonic()
            if self._writer.writes:
                written = now
            if now - started > timeout or now - written > grace:
                log.error("the last checkpoint was not complete after %.0f s", now - started)
                return
            if now - started > _SAY_AFTER and not said:
                said = True
                log.info("waiting for the last checkpoint to be written")
            await asyncio.sleep(_LOOK)

    def close(self) -> None:
        """Free all memory and stop the writer process."""
        self._server.close()
        self._keeper.close()


def _open_peers(address: str, *, token: str, slots: SlotTable, writer: WriterProcess) -> PeerApi:
    try:
        return Peers(address, token=token, slots=slots, writer=writer, news=log.log)
    except OSError as error:
        log.warning(
            "snapshots are not copied between nodes: cannot listen on %s (%s); "
            "--local-addr may name another address of this machine",
            address,
            error.strerror or error,
        )
        return NoPeers()
