"""Logs of nodes, read through the API server: every line once, whatever breaks."""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from resile.kube.client import KubeClient
from resile.kube.resources import PODS
from tests.kube.cli.console import Console
from tests.kube.cli.statuses import manifest
from tests.kube.cluster.commands.line import Line
from tests.kube.cluster.target import MASTER_IMAGE
from tests.kube.operator.operators import OperatorProcess

COUNTING = 'i=0; while true; do echo "line $i of $RESILE_NODE_NAME"; i=$((i+1)); sleep 0.2; done'
PATIENCE = 90.0


def counting(replicas: int) -> dict[str, Any]:
    """A job whose nodes count their lines."""
    role = {
        "image": MASTER_IMAGE,
        "command": ["sh", "-c", COUNTING],
        "replicas": {"min": 1, "max": 3, "wanted": replicas},
        "terminationGracePeriodSeconds": 1,
    }
    return manifest("talk", roles={"worker": role})


class Following:
    """A command that keeps running, and its output so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = asyncio.create_task(asyncio.to_thread(self._read))

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))

    def numbers(self, node: str) -> list[int]:
        """The counts of one node's lines."""
        found = (re.fullmatch(rf"\[{node}\] line (\d+) of {node}", line) for line in self.lines)
        return [int(match[1]) for match in found if match]

    async def until(self, seen: Callable[[], bool]) -> None:
        for _ in range(int(PATIENCE / 0.1)):
            if seen():
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"not seen; printed so far: {self.lines}")


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    """Commands that are ended with the test."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


async def test_output_is_printed(
    console: Console, namespace: str, operator: OperatorProcess
) -> None:
    await console.says("submit", console.write(counting(2)), "-n", namespace)
    for _ in range(60):
        both = (await console.run("logs", "talk", "-n", namespace)).stdout
        if "[talk-worker-1] line 1 of" in both:
            break
    first, second = (
        [line for line in both.splitlines() if line.startswith(f"[talk-worker-{n}]")]
        for n in (0, 1)
    )
    assert both.splitlines() == [*first, *second], "one log after the other"
    assert first[0] == "[talk-worker-0] line 0 of talk-worker-0"
    one = await console.says("logs", "talk", "--rank", "1", "--tail", "1", "-n", namespace)
    assert re.fullmatch(r"line \d+ of talk-worker-1\n", one), "one log needs no names"
    assert one == one.splitlines()[-1] + "\n"
    master = await console.says("logs", "talk", "--master", "--tail", "50", "-n", namespace)
    assert "master of talk listening on" in master
    assert "line 0" not in master
    said = await console.refuses("logs", "talk", "trainer", "-n", namespace)
    assert "job 'talk' has no node or role 'trainer': worker, talk-worker-0, talk-worker-1" in said


async def test_following_goes_on_over_broken_lines_and_with_the_rank(
    console: Console,
    kubeconfig: str,
    namespace: str,
    operator: OperatorProcess,
    line: Line,
    processes: list[subprocess.Popen[str]],
) -> None:
    await console.says("submit", console.write(counting(2)), "-n", namespace)
    processes.append(console.start("logs", "talk", "-f", "--rank", "0", "-n", namespace))
    following = Following(processes[0])
    await following.until(lambda: len(following.numbers("talk-worker-0")) > 5)
    for pause in (0.0, 4.0):
        line.cut()
        await asyncio.sleep(pause)
        line.mend()
        reached = len(following.numbers("talk-worker-0"))
        await following.until(
            lambda reached=reached: len(following.numbers("talk-worker-0")) > reached + 25  # type: ignore[misc]
        )
    async with KubeClient.connect(kubeconfig=kubeconfig, namespace=namespace) as client:
        await client.delete(PODS, "talk-worker-0")
    await following.until(lambda: len(following.numbers("talk-worker-2")) > 5)
    deleted = await console.run("delete", "talk", "-n", namespace)  # printed if it takes long
    assert deleted.returncode == 0, deleted.stderr
    assert await asyncio.to_thread(following.process.wait, 60) == 0, "the job is over"
    for node in ("talk-worker-0", "talk-worker-2"):
        numbers = following.numbers(node)
        assert numbers == list(range(len(numbers))), f"each line of {node} once"
    assert all(line.startswith(("[talk-worker-0]", "[talk-worker-2]")) for line in following.lines)
