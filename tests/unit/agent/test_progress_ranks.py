"""The progress of each local rank is kept separately."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack

import pytest

from resile.agent.progress import ProgressSocket
from resile.wire.messages import Progress, RankProgress

WORKER = """
import socket, sys
line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for text in sys.stdin:
    line.sendto(text.encode(), "\\0" + sys.argv[1][1:])
    print("sent", flush=True)
"""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Reporter:
    """A process that leads a session, like a worker, and sends reports on request."""

    def __init__(self, door: ProgressSocket) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, door.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid

    async def says(self, **report: object) -> None:
        """Send a report; return when the agent's loop has processed it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"round": 1, **report}), file=self._process.stdin, flush=True)
        assert await asyncio.to_thread(self._process.stdout.readline) == "sent\n"
        for _ in range(10):
            await asyncio.sleep(0)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def door(clock: Clock) -> AsyncIterator[ProgressSocket]:
    made = ProgressSocket(clock=clock)
    made.new_round(1)
    yield made
    made.close()


@pytest.fixture
async def workers(door: ProgressSocket) -> AsyncIterator[list[Reporter]]:
    with ExitStack() as ended:
        made = [Reporter(door) for _ in range(3)]
        for one in made:
            ended.callback(one.close)
        yield made


def by_pid(workers: list[Reporter], first_rank: int = 4) -> dict[int, int]:
    return {worker.pid: first_rank + number for number, worker in enumerate(workers)}


async def test_ranks_are_kept_each_for_itself_with_age_and_step_time(
    door: ProgressSocket, workers: list[Reporter], clock: Clock
) -> None:
    fast, slow, silent = workers
    for step in range(5):
        clock.now += 2.0
        await fast.says(step=step)
        if step % 2 == 0:
            await slow.says(step=step // 2)
    await silent.says(loss=0.5)
    clock.now += 0.5
    ranks = door.ranks(by_pid(workers))
    assert ranks == (
        RankProgress(local_rank=0, rank=4, step=4, age=0.5, step_time=2.0),
        RankProgress(local_rank=1, rank=5, step=2, age=0.5, step_time=4.0),
    )
    # The node as a whole shows the latest report, as before.
    assert door.latest(set(by_pid(workers))) == Progress(step=2, loss=0.5)
    clock.now += 60.0
    await fast.says(step=4)  # the same step once more is no progress
    assert [one.age for one in door.ranks(by_pid(workers))] == [60.5, 60.5]


async def test_a_new_round_knows_nothing_of_the_one_before(
    door: ProgressSocket, workers: list[Reporter]
) -> None:
    await workers[0].says(step=7)
    assert len(door.ranks(by_pid(workers))) == 1
    door.new_round(2)
    assert door.ranks(by_pid(workers)) == ()
    await workers[0].says(step=8)
    assert door.ranks(by_pid(workers)) == ()


@pytest.fixture
def stranger(door: ProgressSocket) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as line:
        line.connect("\0" + door.name[1:])
        yield line


async def test_who_is_no_worker_has_no_rank_and_hostile_numbers_are_not_kept(
    door: ProgressSocket, workers: list[Reporter], stranger: socket.socket
) -> None:
    stranger.send(b'{"round": 1, "step": 99}')
    for number in (2**70, -1, "many", None, 2**63 - 1):
        await workers[1].says(step=number)
    (one,) = door.ranks(by_pid(workers))
    assert (one.local_rank, one.step) == (1, 2**63 - 1)
