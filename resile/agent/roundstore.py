"""The store of the round that is being formed or runs, where this node hosts it.

A store of each round's own: nothing of a dead round can be read from it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from resile.agent.nursery import Nursery, StoreHost
from resile.wire.endpoint import free_port
from resile.wire.messages import StoreAddress

__all__ = ["RoundStore"]


class RoundStore:
    """One node's, through all rounds."""

    def __init__(self, nursery: Nursery, *, address: str, lost: Callable[[str, int], None]) -> None:
        """``lost`` hears why, and the exit code, when a store that is in use has ended."""
        self._nursery = nursery
        self._address = address
        self._lost = lost
        self._host: StoreHost | None = None
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> StoreAddress:
        """A new store, instead of the one before.

        A script that has nothing to do with torch gets an address nobody listens at, as any would.
        """
        old, self._host = self._host, None
        if old is not None:
            if self._watch is not None:
                self._watch.cancel()
            await old.close()
        if not await self._nursery.wants_torch():
            return StoreAddress(self._address, free_port(self._address), hosted=False)
        self._host = await self._nursery.open_store()
        self._watch = asyncio.create_task(self._follow(self._host))
        return StoreAddress(self._address, self._host.port)

    async def _follow(self, host: StoreHost) -> None:
        code = await host.wait()
        if host is self._host:
            self._lost(f"the round's store (pid {host.pid}) ended with {code}", code)
