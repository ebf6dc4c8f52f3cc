"""The store of the round that is forming or running, on the node that hosts it.

Each round has a store of its own, so that nothing of a dead round can be read from it. It also has
a port of its own, unless the user chose one for all rounds (static rendezvous).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from resile.agent.nursery import Nursery, StoreHost, StoreUnavailable
from resile.system.processes import describe_exit
from resile.wire.endpoint import Endpoint, free_port, is_this_machine
from resile.wire.messages import StoreAddress

__all__ = ["HostedStore"]

PORT_TIMEOUT = 3.0
"""Seconds for which a chosen port may be in use: the store of a node that was just lost is still
exiting."""

PORT_RETRY = 0.05


class HostedStore:
    """Hosts the stores of this node, one round after the other."""

    def __init__(
        self,
        nursery: Nursery,
        *,
        address: str,
        fixed: Endpoint | None = None,
        lost: Callable[[str, int], None],
    ) -> None:
        """``fixed`` is the address that the user chose for every round's store. ``lost`` is called
        with a reason and the exit code when a store in use has exited."""
        self._nursery = nursery
        self._address = address
        self._fixed = fixed
        # The host's name for workers: the one that the user wrote, if it is this machine's.
        ours = fixed is not None and is_this_machine(fixed.host)
        self._name = fixed.host if fixed and ours else address
        self._lost = lost
        self._host: StoreHost | None = None
        self._watch: asyncio.Task[None] | None = None

    async def open(self) -> StoreAddress:
        """Open a new store, replacing the previous one.

        For a script that does not use torch, return an address at which no server listens.
        """
        old, self._host = self._host, None
        if old is not None:
            if self._watch is not None:
                self._watch.cancel()
            await old.close()
        if not await self._nursery.wants_torch():
            port = self._fixed.port if self._fixed else free_port(self._address)
            return StoreAddress(self._name, port, hosted=False)
        self._host = await self._open_host()
        self._watch = asyncio.create_task(self._follow(self._host))
        return StoreAddress(self._name, self._host.port)

    async def _open_host(self) -> StoreHost:
        fixed = self._fixed
        if fixed is None:
            return await self._nursery.open_store()
        give_up_at = time.monotonic() + PORT_TIMEOUT
        # "localhost" has two addresses; scripts may use either name for the first.
        host = "127.0.0.1" if fixed.host == "localhost" else self._name
        while True:
            try:
                return await self._nursery.open_store(host, fixed.port)
            except StoreUnavailable as error:
                if time.monotonic() > give_up_at:
                    raise StoreUnavailable(
                        f"--master-port {fixed.port} cannot be used for training: {error}"
                    ) from None
            await asyncio.sleep(PORT_RETRY)

    async def _follow(self, host: StoreHost) -> None:
        code = await host.wait()
        if host is self._host:
            self._lost(f"the round's store (pid {host.pid}) {describe_exit(code)}", code)
