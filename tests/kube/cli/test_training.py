"""A cluster's job that really trains, described: its operator asks its master, and writes it down.

Operator, API server, master and agents are the real ones. Only the pods are not: the master and
the agents are processes of this machine, at an address of their own.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from resile.platform.container import IN_A_POD, ContainerMeter
from resile.platform.kubernetes.kinds import ELASTIC_JOBS, SECRETS
from resile.wire.endpoint import DEFAULT_PORT
from resile.wire.launching import KEPT_VARIABLE
from tests.kube.cli.console import Console
from tests.kube.cli.statuses import create, manifest
from tests.kube.operator.operators import OperatorProcess
from tests.kube.operator.stage import Stage, eventually
from tests.kube.operator.standin import StandIn
from tests.local.up.ups import PROGRAMS

Start = Callable[..., Awaitable[None]]

REFRESH = 10.0
"""How often the operator brings figures up to date."""

FAILING = """
import time
from resile import report
report(step=3)
time.sleep(2.5)
raise ValueError("the loss is no number")
"""


@pytest.fixture
def address() -> str:
    """On which no other test's master listens."""
    return f"127.{64 + os.getpid() % 128}.{os.getpid() // 128 % 256}.1"


@pytest_asyncio.fixture
async def start(
    stage: Stage, kubelets: StandIn, console: Console, address: str
) -> AsyncIterator[Start]:
    """Starts what a job's pods would run: its master, and the agents of its nodes."""
    kubelets.address = address
    processes: list[subprocess.Popen[bytes]] = []

    async def start(name: str, script: Path, **variables: str) -> None:
        secret = await eventually(
            lambda: stage.client.get(SECRETS, f"{name}-token"), "the job's token"
        )
        token = base64.b64decode(secret["data"]["token"]).decode()
        env = {**console.env(), "RESILE_TOKEN": token, KEPT_VARIABLE: "1", IN_A_POD: "10.0.0.1"}
        env |= variables
        endpoint = f"{address}:{DEFAULT_PORT}"
        common = ("--nnodes", "2:4", "--max-restarts", "0")
        store = str(console.folder / "master.db")

        def run(*words: str, **more: str) -> None:
            command = [sys.executable, "-m", "resile", *words]
            processes.append(subprocess.Popen(command, env={**env, **more}, cwd=console.folder))

        run("master", "--endpoint", endpoint, "--job", name, *common, "--store", store)
        for rank in range(2):
            run(
                *("run", "--rdzv-endpoint", endpoint, "--rdzv-id", name, *common, str(script)),
                RESILE_NODE_NAME=f"{name}-worker-{rank}",
                RESILE_NODE_RANK=str(rank),
                RESILE_NODE_ID=str(rank),
            )

    yield start
    for process in reversed(processes):
        process.kill()
        process.wait()


def line(shown: str, beginning: str) -> str:
    (found,) = (one for one in shown.splitlines() if one.startswith(beginning))
    return found


async def test_a_training_is_described_as_on_one_machine(
    stage: Stage, console: Console, operator: OperatorProcess, start: Start
) -> None:
    raw = await create(stage.client, manifest("digits"))
    await start("digits", PROGRAMS / "tick.py", PAUSE="0.1")

    async def trains() -> dict[str, Any]:
        status = await stage.status("digits")
        members = (status.get("training") or {}).get("nodes") or {}
        steps = [one.get("step") for one in members.values()]
        return status if len(steps) == 2 and None not in steps and status.get("step") else {}

    status = await eventually(trains, "what the nodes do")
    said = await console.says("describe", "digits")
    assert re.match(r"Training: +round \d \(running\), 2 workers, step \d+", line(said, "Training"))
    assert "Round because: " in said
    assert "0 of 0 restarts of failing workers, 0 relaunches of failing nodes spent" in said
    heading, row = line(said, "NODE "), line(said, "digits-worker-1").split()
    assert heading.split() == [
        *("NODE", "ID", "ROLE", "RANK", "PHASE", "ROUND", "STEP", "RESTARTS"),
        *("CPU", "MEMORY", "WHY"),
    ]
    assert row[:5] == ["digits-worker-1", "1", "worker", "1", "Running"]
    assert row[5:7] == [str(status["round"]), "running"]
    assert int(row[7]) > 0
    if ContainerMeter.of_this_process().read(0.0) is not None:
        assert re.fullmatch(r"[0-9.]+[KMG]i/2Gi", row[10]), "the agent told what it uses"

    versions = set()
    before = await stage.status("digits")
    for _ in range(int(2.5 * REFRESH / 0.1)):
        versions.add((await stage.job("digits"))["metadata"]["resourceVersion"])
        await asyncio.sleep(0.1)
    after = await stage.status("digits")
    for name, member in after["training"]["nodes"].items():
        assert member["step"] > before["training"]["nodes"][name]["step"] + 50
    assert len(versions) <= 1 + 4, "one write in ten seconds, not one for each step"

    assert {one["observedGeneration"] for one in after["conditions"]} == {1}
    assert after["observedGeneration"] == 1
    times = [one["lastTransitionTime"] for one in after["conditions"]]
    body = {"spec": {"roles": {"worker": {"env": {"NEW": "1"}}}}}
    await stage.client.patch(ELASTIC_JOBS, "digits", body)

    async def judged() -> list[dict[str, Any]]:
        conditions = (await stage.status("digits"))["conditions"]
        return conditions if conditions[0].get("observedGeneration") == 2 else []

    conditions = await eventually(judged, "the new spec to be looked at")
    assert {one["observedGeneration"] for one in conditions} == {2}
    assert [one["lastTransitionTime"] for one in conditions] == times
    assert (await stage.job("digits"))["metadata"]["uid"] == raw["metadata"]["uid"]


async def test_who_failed_first_is_told(
    stage: Stage, console: Console, operator: OperatorProcess, start: Start
) -> None:
    script = console.folder / "failing.py"
    script.write_text(FAILING)
    await create(stage.client, manifest("digits"))
    await start("digits", script)
    status = await stage.has_phase("digits", "Failed")
    assert status["training"]["failure"]["node"].startswith("digits-worker-")
    said = await console.says("describe", "digits")
    assert "ValueError: the loss is no number" in said.partition("\nFailure\n")[2]
    assert re.match(r"Training: +round 1 \(failed\), 2 workers, step 3", line(said, "Training"))
