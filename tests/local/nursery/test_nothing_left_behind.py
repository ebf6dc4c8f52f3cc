"""Nothing is left behind when an agent, a nursery or a worker dies."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.local.nursery.harness import (
    PATIENCE,
    environment,
    is_alive,
    kill,
    nursery_for,
    script,
    until,
)

Write = Callable[[str, str], Path]

PARENT = """
import os, subprocess, time
child = subprocess.Popen(["sleep", "600"])
# In one piece: two workers share the pipe, and print() writes the end of a line apart.
os.write(1, f"up {child.pid}\\n".encode())
time.sleep(600)
"""

AGENT = """
import asyncio, os, sys
from resile.agent.nursery import CommandKind, Nursery, WorkerCommand, WorkerSpec

async def main():
    command = WorkerCommand(kind=CommandKind.SCRIPT, target="train.py")
    env = dict(os.environ)
    nursery = Nursery(command=command, env=env, cwd=os.getcwd())
    await nursery.start()
    spec = WorkerSpec(command=command, env=env, cwd=os.getcwd(), stdin=0, stdout=1, stderr=2)
    workers = await nursery.spawn([spec, spec])
    pids = " ".join(str(worker.pid) for worker in workers)
    os.write(1, f"workers {pids}\\n".encode())
    await asyncio.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_an_agent_that_dies_takes_everything_with_it(
    tmp_path: Path, write: Write, number: int
) -> None:
    write("train.py", PARENT)
    agent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        AGENT,
        cwd=tmp_path / "work",
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
    )
    try:
        assert agent.stdout is not None
        lines = [(await agent.stdout.readline()).decode() for _ in range(3)]
        family = [child.pid for child in psutil.Process(agent.pid).children(recursive=True)]
        named = {int(word) for line in lines for word in line.split() if word.isdigit()}
        assert len(named) == 4
        assert named < set(family)
        agent.send_signal(number)
        await until(lambda: not any(is_alive(pid) for pid in family))
    finally:
        kill(agent.pid)
        await agent.wait()


async def test_a_nursery_that_dies_takes_its_workers_and_is_replaced(
    tmp_path: Path, write: Write
) -> None:
    write("train.py", PARENT)
    async with nursery_for(tmp_path, script("train.py")) as harness:
        (running,) = await harness.spawn()
        await running.printed("up")
        family = [running.worker.pid, int(running.stdout.read_text().split()[1])]
        kill(psutil.Process(running.worker.pid).ppid())
        assert await asyncio.wait_for(running.worker.wait(), PATIENCE) == -signal.SIGKILL
        await until(lambda: not any(is_alive(pid) for pid in family))
        (after,) = await harness.spawn()
        assert after.worker.warm
        await after.printed("up")


async def test_a_nursery_that_dies_again_and_again_is_replaced_each_time(
    tmp_path: Path, write: Write
) -> None:
    write("train.py", PARENT)
    async with nursery_for(tmp_path, script("train.py")) as harness:
        for _ in range(3):
            (running,) = await harness.spawn()
            kill(psutil.Process(running.worker.pid).ppid())
            await asyncio.wait_for(running.worker.wait(), PATIENCE)


async def test_a_nursery_is_deaf_to_what_is_meant_for_workers(tmp_path: Path, write: Write) -> None:
    write("train.py", PARENT)
    async with nursery_for(tmp_path, script("train.py")) as harness:
        (running,) = await harness.spawn()
        nursery = psutil.Process(running.worker.pid).ppid()
        assert os.getsid(nursery) == nursery
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            os.kill(nursery, number)
        await running.printed("up")
        running.worker.signal(signal.SIGTERM)
        assert await running.worker.wait() == -signal.SIGTERM
        assert is_alive(nursery)


async def test_a_spawn_that_meets_a_dying_nursery_is_repeated(tmp_path: Path, write: Write) -> None:
    write("train.py", PARENT)
    async with nursery_for(tmp_path, script("train.py")) as harness:
        (first,) = await harness.spawn()
        nursery = psutil.Process(first.worker.pid).ppid()
        os.kill(nursery, signal.SIGSTOP)
        spawning = asyncio.ensure_future(harness.spawn(2))
        await asyncio.sleep(0)
        kill(nursery)
        second, third = await asyncio.wait_for(spawning, PATIENCE)
        await second.printed("up")
        await third.printed("up")
