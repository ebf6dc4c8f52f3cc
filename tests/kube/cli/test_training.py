"""`describe` for a cluster's job that really trains: its operator polls its master for the figures.

Operator, API server, master and agents are the real ones. Only the pods are not: the master and
the agents are processes of this machine, at a separate address.
"""

from __future__ import annotations

import base64
import os
import re
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from resile.agent.container_usage import IN_A_POD, ContainerMeter
from resile.kube.resources import ELASTIC_JOBS, SECRETS, KubeObject
from resile.launch.master_process import KEPT_VARIABLE
from resile.wire.endpoint import DEFAULT_PORT
from tests.kube.cli import statuses
from tests.kube.cli.console import Console
from tests.kube.operator.operators import OperatorProcess
from tests.kube.operator.stage import Stage, eventually
from tests.kube.operator.standin import StandIn
from tests.local.up.ups import PROGRAMS

Start = Callable[..., Awaitable[None]]

REFRESH = 10.0
"""The interval at which the operator updates the figures."""

NODES = 2
WORKER = {**statuses.WORKER, "replicas": {"min": NODES, "max": 4, "wanted": NODES}}
DIGITS = statuses.manifest("digits", roles={"worker": WORKER}, maxRestarts=0, master={"tls": False})
"""Without TLS: its agents find the master by an address and not by its service's name."""

FAILING = """
import pathlib, time
from resile import report
report(step=3)
while not pathlib.Path("fail").exists():
    time.sleep(0.05)
raise ValueError("the loss is no number")
"""


@pytest.fixture
def address() -> str:
    """A loopback address that no other test's master uses."""
    return f"127.{64 + os.getpid() % 128}.{os.getpid() // 128 % 256}.1"


@pytest_asyncio.fixture
async def start(
    stage: Stage, kubelets: StandIn, console: Console, address: str
) -> AsyncIterator[Start]:
    """Starts the programs of a job's pods: its master, and the agents of its nodes."""
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
        common = ("--nnodes", f"{NODES}:4", "--max-restarts", "0")
        store = str(console.folder / "master.db")

        def run(*words: str, **more: str) -> None:
            command = [*console.command(), *words]
            processes.append(subprocess.Popen(command, env={**env, **more}, cwd=console.folder))

        run("master", "--endpoint", endpoint, "--job", name, *common, "--store", store)
        for rank in range(NODES):
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


async def written_steps(stage: Stage, name: str) -> list[int]:
    """The step of each node in the status; empty until all have one."""
    members = ((await stage.status(name)).get("training") or {}).get("nodes") or {}
    steps = [one.get("step") for one in members.values()]
    return steps if len(steps) == NODES and None not in steps else []


@pytest_asyncio.fixture
async def training(stage: Stage, operator: OperatorProcess, start: Start) -> KubeObject:
    """A job whose nodes take ten steps a second, once the first steps are in its status."""
    raw = await statuses.create(stage.client, DIGITS)
    await start("digits", PROGRAMS / "tick.py", PAUSE="0.1")

    async def trains() -> bool:
        return bool(await written_steps(stage, "digits") and (await stage.status("digits"))["step"])

    await eventually(trains, "what the nodes do")
    return raw


@pytest.mark.usefixtures("training")
async def test_a_training_is_described_as_on_one_machine(stage: Stage, console: Console) -> None:
    said = await console.says("describe", "digits")
    assert re.match(r"Training: +round \d \(running\), 2 workers, step \d+", line(said, "Training"))
    assert "Round reason: " in said
    assert "0 of 0 restarts of failing workers, 0 relaunches of failing nodes spent" in said
    heading, row = line(said, "NODE "), line(said, "digits-worker-1").split()
    assert heading.split() == [
        *("NODE", "ID", "ROLE", "RANK", "PHASE", "ROUND", "STEP", "LOSS"),
        *("RESTARTS", "CPU", "MEMORY"),
    ]
    assert row[:5] == ["digits-worker-1", "1", "worker", "1", "Running"]
    assert row[5:7] == [str((await stage.status("digits"))["round"]), "running"]
    assert int(row[7]) > 0
    if ContainerMeter.of_this_process().read(0.0) is not None:
        assert re.fullmatch(r"[0-9.]+[KMG]i/2Gi", row[11]), "the agent told what it uses"


@pytest.mark.usefixtures("training")
async def test_figures_that_change_all_the_time_are_written_now_and_then(stage: Stage) -> None:
    before, begun = await written_steps(stage, "digits"), time.monotonic()
    versions: set[str] = set()

    async def many_steps_later() -> bool:
        versions.add((await stage.job("digits"))["metadata"]["resourceVersion"])
        after = await written_steps(stage, "digits")
        return bool(after) and all(new > old + 100 for old, new in zip(before, after, strict=True))

    await eventually(many_steps_later, "more steps to be written down")
    refreshes = (time.monotonic() - begun) / REFRESH
    # The step and the nodes' states are updated at separate times.
    assert len(versions) <= 1 + 2 * (1 + refreshes), "not one write for each step"


def transitions(conditions: list[dict[str, Any]]) -> dict[str, str]:
    return {one["type"]: one["lastTransitionTime"] for one in conditions}


async def test_a_new_spec_is_judged_without_moving_what_stays_true(
    stage: Stage, training: KubeObject
) -> None:
    before = await stage.status("digits")
    assert before["observedGeneration"] == 1
    assert {one["observedGeneration"] for one in before["conditions"]} == {1}
    body = {"spec": {"roles": {"worker": {"env": {"NEW": "1"}}}}}
    await stage.client.patch(ELASTIC_JOBS, "digits", body)

    async def judged() -> list[dict[str, Any]]:
        conditions = (await stage.status("digits"))["conditions"]
        return conditions if conditions[0].get("observedGeneration") == 2 else []

    conditions = await eventually(judged, "the new spec to be looked at")
    assert {one["observedGeneration"] for one in conditions} == {2}
    assert transitions(conditions) == transitions(before["conditions"])
    assert (await stage.job("digits"))["metadata"]["uid"] == training["metadata"]["uid"]


@pytest.mark.usefixtures("operator")
async def test_who_failed_first_is_told(stage: Stage, console: Console, start: Start) -> None:
    script = console.folder / "failing.py"
    script.write_text(FAILING)
    await statuses.create(stage.client, DIGITS)
    await start("digits", script)

    async def step_is_known() -> bool:
        return (await stage.status("digits")).get("step") == 3

    await eventually(step_is_known, "the step to be written down")
    (console.folder / "fail").touch()
    status = await stage.has_phase("digits", "Failed")
    assert status["training"]["failure"]["node"].startswith("digits-worker-")
    said = await console.says("describe", "digits")
    assert "ValueError: the loss is no number" in said.partition("\nFailure\n")[2]
    assert re.match(r"Training: +round 1 \(failed\), 2 workers, step 3", line(said, "Training"))
