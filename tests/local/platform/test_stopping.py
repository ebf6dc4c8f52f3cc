"""Nodes that are stopped: all their processes end, after the given grace period."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from resile.job.exits import ExitCause, NodeExit, classify
from resile.job.node import NodePhase
from resile.local.platform import LocalPlatform
from resile.system.process_tree import list_processes
from tests.local.jobs import is_alive
from tests.local.platform.conftest import MakePlatform
from tests.local.platform.nodes import (
    appears,
    ended,
    gone,
    python,
    running,
    seen,
    start,
    stop,
)

NO_ANSWER_TIMEOUT = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
RUNAWAY = """
import os, signal, time
if os.fork():
    {then}
os.setsid()
if os.fork():
    os._exit(0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open("runaway", "w") as file:
    print(os.getpid(), file=file)
time.sleep(1000)
"""
"""A node that starts a process which leaves its session, loses its parent and ignores SIGTERM."""

LEAVE_IT_BEHIND = ("while not os.path.exists('runaway'):", "    time.sleep(0.01)", "os._exit(5)")


async def test_a_stopped_node_gets_sigterm_and_its_answer_is_kept(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    script = "trap 'echo bye > said; exit 80' TERM; echo > ready; sleep 1000 & wait"
    await platform.apply([start(0, "sh", "-c", script, cwd=tmp_path)])
    await appears(tmp_path / "ready")
    await platform.apply([stop(0)])
    assert seen(platform, 0).stopping
    found = await ended(platform, 0)
    assert found.exit == NodeExit(code=80, reason="Deleted", message="a test has had enough")
    assert found.phase is NodePhase.FAILED
    assert not found.stopping
    assert (tmp_path / "said").read_text() == "bye\n"


async def test_a_node_that_ignores_sigterm_is_killed_when_the_grace_is_over(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    code = NO_ANSWER_TIMEOUT + "open('ready', 'w').write('\\n'); time.sleep(1000)"
    await platform.apply([start(0, *python(code), cwd=tmp_path)])
    await appears(tmp_path / "ready")
    await platform.apply([stop(0, grace=0.3)])
    found = await ended(platform, 0)
    assert found.exit is not None
    assert found.exit.signal == signal.SIGKILL
    assert classify(found.exit) is ExitCause.DELETED


async def test_a_second_stop_can_shorten_the_grace(platform: LocalPlatform, tmp_path: Path) -> None:
    code = NO_ANSWER_TIMEOUT + "open('ready', 'w').write('\\n'); time.sleep(1000)"
    await platform.apply([start(0, *python(code), cwd=tmp_path)])
    await appears(tmp_path / "ready")
    await platform.apply([stop(0, grace=1000)])
    await platform.apply([stop(0, grace=0)])
    assert not (await ended(platform, 0)).live


async def test_a_node_may_be_stopped_while_it_is_starting(platform: LocalPlatform) -> None:
    await platform.apply([start(0), stop(0)])
    found = await ended(platform, 0)
    assert found.exit is not None
    assert classify(found.exit) is ExitCause.DELETED


async def test_a_frozen_node_can_be_stopped(platform: LocalPlatform) -> None:
    await platform.apply([start(0)])
    await running(platform, 0)
    os.kill(platform.pids()[0], signal.SIGSTOP)
    await platform.apply([stop(0, grace=0.1)])
    assert (await ended(platform, 0)).exit is not None


async def test_nothing_of_a_node_is_left_when_it_ends_by_itself(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    code = RUNAWAY.format(then="\n    ".join(LEAVE_IT_BEHIND))
    await platform.apply([start(0, *python(code), cwd=tmp_path)])
    runaway = int(await appears(tmp_path / "runaway"))
    assert (await ended(platform, 0)).exit == NodeExit(code=5)
    assert not is_alive(runaway)


async def test_nothing_of_a_node_is_left_when_it_is_stopped(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    code = RUNAWAY.format(then="time.sleep(1000)")
    await platform.apply([start(0, *python(code), cwd=tmp_path)])
    runaway = int(await appears(tmp_path / "runaway"))
    await platform.apply([stop(0)])
    await ended(platform, 0)
    assert not is_alive(runaway)


async def test_helpers_that_clean_up_after_a_dead_parent_have_the_time_to(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    helper = "trap '' TERM; echo > ready; read line; sleep 0.2; echo > cleaned"
    script = f'mkfifo line; sh -c "{helper}" < line & exec 3> line; sleep 1000'
    await platform.apply([start(0, "sh", "-c", script, cwd=tmp_path)])
    await appears(tmp_path / "ready")
    os.kill(platform.pids()[0], signal.SIGKILL)
    await ended(platform, 0)
    assert (tmp_path / "cleaned").exists()


async def test_closing_ends_everything_and_leaves_no_process(make: MakePlatform) -> None:
    platform = make("cpu=2")
    await platform.apply([start(id, cpu="1") for id in range(3)])
    await running(platform, 0, 1)
    pids = [*platform.pids().values()]
    supervisors = [found.parent for found in list_processes().values() if found.pid in pids]
    await platform.close(grace=10)
    assert not any(is_alive(pid) for pid in pids + supervisors)
    exits = [found.exit for found in platform.observe()]
    assert [classify(found) for found in exits if found] == [ExitCause.DELETED] * 3
    await platform.apply([start(9)])
    assert len(platform.observe()) == 3


async def test_closing_can_be_hurried(make: MakePlatform, tmp_path: Path) -> None:
    platform = make()
    code = NO_ANSWER_TIMEOUT + "open('ready', 'w').write('\\n'); time.sleep(1000)"
    await platform.apply([start(0, *python(code), cwd=tmp_path)])
    await appears(tmp_path / "ready")
    pid = platform.pids()[0]
    patient = asyncio.create_task(platform.close(grace=1000))
    await asyncio.sleep(0)
    await platform.close(grace=0)
    await patient
    await gone(pid)
