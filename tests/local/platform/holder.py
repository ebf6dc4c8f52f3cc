"""A process that holds a platform with a few nodes, to be killed by a test. The job is named
after its folder, so that parallel tests do not clean up each other's nodes.

It prints a line of JSON when all nodes run: the process ids of the nodes, and of their supervisors.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from resile.control.actions import StartNode
from resile.local.capacity import Capacity
from resile.local.platform import LocalPlatform
from resile.system.process_tree import list_processes
from tests.local.platform.nodes import running, start


async def hold(folder: Path, commands: list[list[str]]) -> None:
    platform = LocalPlatform(
        job=folder.name,
        folder=folder,
        capacity=Capacity.parse("cpu=64,memory=64Gi"),
        environment={},
    )
    orders: list[StartNode] = [
        start(id, *command, cwd=folder, memory="2Gi", cpu="2")
        for id, command in enumerate(commands)
    ]
    await platform.apply(orders)
    await running(platform, *range(len(commands)))
    nodes = list(platform.pids().values())
    supervisors = [seen.parent for seen in list_processes().values() if seen.pid in nodes]
    print(json.dumps({"nodes": nodes, "supervisors": supervisors}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(hold(Path(sys.argv[1]), json.loads(sys.argv[2])))
