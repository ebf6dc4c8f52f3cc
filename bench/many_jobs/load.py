"""A trial: many jobs are created at once, then a pod of each is deleted."""

import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

from resile.kube.client import KubeClient
from resile.kube.resources import CUSTOM_RESOURCES, ELASTIC_JOBS, PODS, KubeObject
from resile.operator.build.labels import COMPONENT, NODE
from tests.kube.apiserver import running
from tests.kube.operator.operators import OperatorProcess, operating
from tests.kube.operator.stage import eventually
from tests.kube.operator.standin import standing_in

DEFINITION = Path(__file__).parents[2] / "deploy" / "crds" / "elasticjobs.resile.dev.yaml"
PATIENCE = 300.0
_NODES = f"{COMPONENT}={NODE}"


@dataclass(frozen=True)
class LoadTrial:
    """The result of one trial."""

    created: float
    """Seconds from the first job's creation until all pods of all jobs exist."""

    replaced: float
    """Seconds from the first deletion until every deleted pod has a successor."""

    memory: float
    """Resident memory of the operator at the end, in MB."""

    cpu: float
    """CPU seconds that the operator used during the trial."""


def load_trial(*, jobs: int, nodes: int) -> LoadTrial:
    """Run one trial."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as server:
        kubeconfig = server.kubeconfig()
        asyncio.run(_install(kubeconfig))
        # A process of its own: its memory and CPU are measured.
        command = (sys.executable, "-m", "resile")
        with operating(kubeconfig, Path(folder), "--no-elect", command=command) as operator:
            return asyncio.run(_measured(kubeconfig, operator, jobs=jobs, nodes=nodes))


async def _install(kubeconfig: str) -> None:
    async with KubeClient.connect(kubeconfig=kubeconfig) as client:
        await client.apply(CUSTOM_RESOURCES, yaml.safe_load(DEFINITION.read_text()))
        await eventually(lambda: client.list(ELASTIC_JOBS), "the definition to be served")


async def _measured(
    kubeconfig: str, operator: OperatorProcess, *, jobs: int, nodes: int
) -> LoadTrial:
    process = psutil.Process(operator.pid)
    cpu = sum(process.cpu_times()[:2])
    async with KubeClient.connect(kubeconfig=kubeconfig) as client, standing_in(client):
        began = time.monotonic()
        for number in range(jobs):
            await client.create(ELASTIC_JOBS, _job(number, nodes))
        await _until(client, lambda pods: len(pods) == jobs * nodes)
        created = time.monotonic() - began
        await _until(client, lambda pods: all(_runs(pod) for pod in pods))
        deleted = {f"job-{number}-worker-0" for number in range(jobs)}
        began = time.monotonic()
        for name in deleted:
            await client.delete(PODS, name, grace_seconds=0)
        await _until(client, lambda pods: len(_names(pods) - deleted) == jobs * nodes)
        replaced = time.monotonic() - began
    used = process.memory_info().rss / 1e6
    return LoadTrial(created, replaced, used, sum(process.cpu_times()[:2]) - cpu)


async def _until(client: KubeClient, holds: Callable[[list[KubeObject]], bool]) -> None:
    async def look() -> bool:
        return holds((await client.list(PODS, namespace="default", labels=_NODES)).items)

    waited: Callable[[], Awaitable[bool]] = look
    await eventually(waited, "all pods", patience=PATIENCE)


def _runs(pod: KubeObject) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")


def _names(pods: list[KubeObject]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def _job(number: int, nodes: int) -> KubeObject:
    worker = {"replicas": {"min": 1, "max": nodes}, "image": "train:1", "script": "train.py"}
    return {"metadata": {"name": f"job-{number}"}, "spec": {"roles": {"worker": worker}}}
