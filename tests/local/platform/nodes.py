"""Orders to start small nodes, and functions to wait for their state."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path

from resile.control.actions import DeleteNode, Priority, StartNode, StopNode
from resile.control.observed import ObservedNode
from resile.job.node import Node, NodePhase
from resile.job.spec.role import NodeResources
from resile.local.platform import LocalPlatform
from tests.local.commands import PATIENCE, wait_for
from tests.local.jobs import is_alive

JOB = "here"
SLEEP = ("sleep", "1000")


def node(id: int) -> Node:
    return Node(role="worker", rank=id, id=id, name=f"{JOB}-worker-{id}")


def start(
    id: int,
    *command: str,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    priority: int = 0,
    grace: float = 30.0,
    **resources: str,
) -> StartNode:
    """Start a node; it sleeps unless a command is given."""
    return StartNode(
        node=node(id),
        command=command or SLEEP,
        env=env or {},
        working_dir=None if cwd is None else str(cwd),
        resources=NodeResources(requests=resources, limits=resources),
        priority=Priority(priority),
        grace_seconds=grace,
        reason="a test wants it",
    )


def stop(id: int, *, grace: float = 30.0) -> StopNode:
    return StopNode(node=node(id), grace_seconds=grace, reason="a test has had enough")


def delete(id: int) -> DeleteNode:
    return DeleteNode(node=node(id), reason="a test has seen it")


def python(code: str) -> tuple[str, ...]:
    """A command that runs this code in an interpreter that starts quickly."""
    return (sys.executable, "-I", "-S", "-c", code)


def seen(platform: LocalPlatform, id: int) -> ObservedNode:
    return next(found for found in platform.observe() if found.node.id == id)


async def until(platform: LocalPlatform, condition: Callable[[], bool]) -> None:
    """Wait for a condition on reports. Only ``changed`` wakes it, so that is tested, too."""
    while True:
        platform.changed.clear()
        if condition():
            return
        try:
            await asyncio.wait_for(platform.changed.wait(), PATIENCE)
        except asyncio.TimeoutError:
            raise AssertionError(f"timed out; last seen: {platform.observe()}") from None


async def running(platform: LocalPlatform, *ids: int) -> None:
    await until(platform, lambda: all(seen(platform, id).phase is NodePhase.RUNNING for id in ids))


async def ended(platform: LocalPlatform, id: int) -> ObservedNode:
    await until(platform, lambda: not seen(platform, id).live)
    return seen(platform, id)


async def appears(file: Path) -> str:
    """Wait until a node has written a file to the end of a line."""
    return (
        await asyncio.to_thread(
            wait_for,
            lambda: file.exists() and file.read_text().endswith("\n") and file.read_text(),
            file.name,
        )
        or ""
    )


async def gone(*pids: int) -> None:
    """Wait until none of these processes is left."""
    await asyncio.to_thread(
        wait_for, lambda: not any(is_alive(pid) for pid in pids), f"the end of {pids}"
    )
