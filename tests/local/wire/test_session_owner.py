"""A node that has nothing to do with torch: a session, a link, and its own processes.

It has everything that an owner of a session needs, against a real master.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from resile.job.elasticity import Elasticity
from resile.wire.client import Access
from resile.wire.instructions import (
    EndWithJob,
    PrepareRound,
    Rejoin,
    RepeatReady,
    StartWorkers,
    StopWorkers,
)
from resile.wire.link import Link
from resile.wire.messages import (
    FromAgent,
    FromMaster,
    Handover,
    HandoverTold,
    NodeInfo,
    Renew,
    Start,
    StoreAddress,
    WorkerFailure,
)
from resile.wire.session import NodeSession
from tests.local.wire.masters import running_master
from tests.waiting import eventually

PATIENCE = 60.0
UNSERVED = StoreAddress("127.0.0.1", 1, hosted=False)
TERMS = Elasticity(min_nodes=2, max_nodes=2)


class Sleeper:
    """One node whose only worker sleeps."""

    def __init__(self, access: Access, name: str) -> None:
        info = NodeInfo(name=name, host="h", address="127.0.0.1", nproc=1)
        self.session = NodeSession("none", info, elasticity=TERMS)
        self.worker: asyncio.subprocess.Process | None = None
        self._inbox: asyncio.Queue[FromMaster | int] = asyncio.Queue()
        self._link = Link(
            access,
            hello=lambda: self.session.hello(now=time.monotonic()),
            renewal=self._renewal,
            deliver=self._inbox.put_nowait,
            revive=None,
            give_up_after=lambda: self.session.give_up_after(
                to_join=PATIENCE, working=self.session.runs
            ),
        )
        self._watching: asyncio.Task[None] | None = None
        self._tasks = [
            asyncio.create_task(self._link.run()),
            asyncio.create_task(self._work()),
        ]

    async def runs(self, *, round: int) -> Start:
        """Wait until this round's worker runs."""
        await eventually(lambda: self._runs(round), f"the worker of round {round}")
        assert self.session.start is not None
        return self.session.start

    def _runs(self, round: int) -> bool:
        session = self.session
        return session.runs and self.worker is not None and session.fence.round >= round

    async def reached(self) -> None:
        """Wait until a master has responded again."""
        await eventually(lambda: self._link.connected, "a connection")

    async def drops(self) -> None:
        """Wait until the connection is lost."""
        await eventually(lambda: not self._link.connected, "the end of the connection")

    async def _work(self) -> None:
        while True:
            item = await self._inbox.get()
            if isinstance(item, int):
                self._failed(item)
            else:
                await self._obey(item)

    async def _obey(self, message: FromMaster) -> None:
        match self.session.obey(message):
            case PrepareRound(round=number, host_store=host):
                await self._stop()
                self._say(self.session.ready(number, UNSERVED if host else None))
            case RepeatReady(ready=ready):
                self._say(ready)
            case StartWorkers():
                self.worker = await asyncio.create_subprocess_exec("sleep", "600")
                self._watching = asyncio.create_task(self._watch(self.worker))
            case StopWorkers() | EndWithJob():
                await self._stop()
            case Rejoin():
                await self._stop()
                self._link.rejoin()
            case Handover(handover=number):
                fence = self.session.fence
                self._say(HandoverTold(fence=fence, able=False, handover=number))

    async def _watch(self, worker: asyncio.subprocess.Process) -> None:
        self._inbox.put_nowait(await worker.wait())

    def _failed(self, code: int) -> None:
        start = self.session.start
        rank = start.first_rank if start else 0
        failure = WorkerFailure(local_rank=0, rank=rank, pid=0, exit_code=code)
        self._say(self.session.failed((failure,), now=time.monotonic()))

    async def _stop(self) -> None:
        worker, self.worker = self.worker, None
        if self._watching is not None:
            self._watching.cancel()
        if worker is not None and worker.returncode is None:
            worker.kill()
            await worker.wait()

    def _renewal(self) -> FromAgent | None:
        held = self.session.held
        return None if held is None else Renew(fence=held)

    def _say(self, message: FromAgent | None) -> None:
        if message is not None:
            self._link.send(message)

    async def close(self) -> None:
        self._say(self.session.leave("the test is over"))
        await self._link.flush()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stop()


@asynccontextmanager
async def two_nodes(access: Access) -> AsyncIterator[list[Sleeper]]:
    nodes = [Sleeper(access, f"sleeper-{number}") for number in range(2)]
    try:
        yield nodes
    finally:
        for node in nodes:
            await node.close()


async def test_a_session_is_all_that_a_node_without_torch_needs(tmp_path: Path) -> None:
    with running_master(tmp_path / "first", "--nnodes", "2") as master:
        async with two_nodes(master.access) as nodes:
            starts = [await node.runs(round=1) for node in nodes]
            assert sorted(start.first_rank for start in starts) == [0, 1]
            assert {start.store for start in starts} == {UNSERVED}
            assert nodes[1].worker is not None
            os.kill(nodes[1].worker.pid, signal.SIGKILL)
            seconds = [await node.runs(round=2) for node in nodes]
            assert {start.restart_count for start in seconds} == {1}


async def test_its_workers_do_not_notice_a_master_that_lost_its_memory(tmp_path: Path) -> None:
    with running_master(tmp_path / "first", "--nnodes", "2") as master:
        async with two_nodes(master.access) as nodes:
            starts = [await node.runs(round=1) for node in nodes]
            fences = [node.session.fence for node in nodes]
            workers = [node.worker for node in nodes]
            master.process.kill()
            master.process.wait()
            for node in nodes:
                await node.drops()
            where = ("--endpoint", str(master.endpoint), "--nnodes", "2")
            with running_master(tmp_path / "second", *where) as second:
                for node in nodes:
                    await node.reached()
                assert second.status().round == starts[0].round
                assert [node.session.fence for node in nodes] == fences
                assert [node.worker for node in nodes] == workers
                assert all(node.session.runs for node in nodes)
