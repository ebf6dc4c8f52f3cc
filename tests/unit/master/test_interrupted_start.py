"""A master that is interrupted while it starts: the signal cancels it, wherever it is."""

from __future__ import annotations

import asyncio
from pathlib import Path

from resile.job.elasticity import Elasticity
from resile.master.main import MasterConfig, run_master
from resile.master.store.sqlite import SqliteStore
from resile.wire.endpoint import Endpoint

TURNS = 60
"""Turns of the loop within which a master has started."""


async def test_it_ends_at_any_moment(tmp_path: Path) -> None:
    config = MasterConfig("j", Endpoint("127.0.0.1", 0), token="0" * 64, elasticity=Elasticity())
    for turns in range(TURNS):
        store = SqliteStore(tmp_path / str(turns))
        master = asyncio.create_task(run_master(config, store, listening=lambda _: None))
        for _ in range(turns):
            await asyncio.sleep(0)
        master.cancel()
        done, _ = await asyncio.wait([master], timeout=30)
        assert done, f"cancelled after {turns} turns of the loop, it goes on"
