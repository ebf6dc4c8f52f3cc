"""A node's lease is renewed whatever the agent's own event loop is busy with."""

from __future__ import annotations

import asyncio
from pathlib import Path

from resile.agent.link_thread import LinkThread
from resile.wire.link import Link
from resile.wire.messages import Fence, FromAgent, FromMaster, Progress, Renew, Welcome
from tests.local.commands import wait_for
from tests.local.wire.masters import running_master
from tests.local.wire.pretend import hello

QUICK_LEASE = ("--nnodes", "2", "--rdzv-conf", "lease=1")


async def test_renewals_go_on_while_the_agents_loop_is_blocked(tmp_path: Path) -> None:
    told: list[FromMaster] = []
    renewals: list[FromAgent] = []

    def renewal() -> FromAgent:
        renewals.append(Renew(fence=Fence(0, 0)))
        return renewals[-1]

    with running_master(tmp_path, *QUICK_LEASE) as master:
        link = LinkThread(
            master.access,
            hello=hello,
            renewal=renewal,
            deliver=told.append,
            revive=None,
            give_up_after=lambda: 1e9,
        )
        running = asyncio.create_task(link.run())
        await asyncio.to_thread(wait_for, lambda: told, "the welcome")
        before = len(renewals)
        wait_for(lambda: len(renewals) >= before + 10, "renewals of two leases")  # blocks the loop
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_renewal_that_cannot_be_sent_ends_no_link(tmp_path: Path) -> None:
    told: list[FromMaster] = []

    def renewal() -> FromAgent:
        return Renew(fence=Fence(0, 0), progress=Progress(step=2**70))

    with running_master(tmp_path, *QUICK_LEASE) as master:
        link = Link(
            master.access,
            hello=hello,
            renewal=renewal,
            deliver=told.append,
            revive=None,
            give_up_after=lambda: 1e9,
        )
        running = asyncio.create_task(link.run())

        def welcomes() -> int:
            return sum(isinstance(message, Welcome) for message in told)

        await asyncio.to_thread(wait_for, lambda: welcomes() > 1, "another connection")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
