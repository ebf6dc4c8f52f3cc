"""A stub for kubelets: marks pods Running, and reports the end of pods as the test requests.

Nothing runs behind such a pod. It is for tests of what happens to pods, in any number.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from typing import Any

from resile.kube.client import KubeClient
from resile.kube.errors import KubeError, NotFound
from resile.kube.resources import PODS, SECRETS, KubeObject
from resile.operator.build.labels import COMPONENT, JOB, MASTER


class StandIn:
    """Manages the pods of one namespace, or of all."""

    def __init__(self, client: KubeClient, *, namespace: str | None = None) -> None:
        self._client = client
        self._namespace = namespace
        self._tries: set[asyncio.Future[None]] = set()
        self.held: set[str] = set()
        """Names of pods that stay Pending."""

        self.address = "127.0.0.1"
        """The address of all pods."""

    async def run(self) -> None:
        while True:
            try:
                await self._follow()
            except KubeError:
                await asyncio.sleep(0.2)

    async def _follow(self) -> None:
        listed = await self._client.list(PODS, namespace=self._namespace, labels=JOB)
        for pod in listed.items:
            await self._start(pod)
        async for event, pod in self._client.watch(
            PODS,
            namespace=self._namespace,
            labels=JOB,
            resource_version=listed.resource_version,
            timeout_seconds=60,
        ):
            if event == "ADDED":
                await self._start(pod)

    async def _start(self, pod: KubeObject) -> None:
        if (pod.get("status") or {}).get("phase") != "Pending":
            return
        if pod["metadata"]["name"] not in self.held and await self._can_start(pod):
            await self._report(pod, "Running", {"running": {"startedAt": _now()}})

    async def _can_start(self, pod: KubeObject) -> bool:
        """Whether the secret of its variables exists: a container waits for it."""
        namespace = pod["metadata"]["namespace"]
        sources = [one.get("valueFrom") or {} for one in pod["spec"]["containers"][0]["env"]]
        for wanted in (one["secretKeyRef"] for one in sources if "secretKeyRef" in one):
            try:
                secret = await self._client.get(SECRETS, wanted["name"], namespace)
            except NotFound:
                secret = {}
            found = wanted["key"] in (secret.get("data") or {})
            if not found and not wanted.get("optional"):
                self._later(pod)
                return False
        return True

    def _later(self, pod: KubeObject) -> None:
        async def again() -> None:
            await asyncio.sleep(0.1)
            with contextlib.suppress(KubeError):
                metadata = pod["metadata"]
                await self._start(
                    await self._client.get(PODS, metadata["name"], metadata["namespace"])
                )

        task = asyncio.ensure_future(again())
        self._tries.add(task)
        task.add_done_callback(self._tries.discard)

    def close(self) -> None:
        """Stop managing pods."""
        for task in self._tries:
            task.cancel()

    async def end(
        self, pod: KubeObject, code: int, reason: str = "Error", *, beside: Sequence[str] = ()
    ) -> None:
        """Report that the pod's program ended; ``beside``: containers that still run."""
        times = {"startedAt": _now(), "finishedAt": _now()}
        state = {"terminated": {"exitCode": code, "reason": reason, **times}}
        phase = "Running" if beside else "Succeeded" if code == 0 else "Failed"
        await self._report(pod, phase, state, beside=beside)

    async def _report(
        self, pod: KubeObject, phase: str, state: dict[str, Any], *, beside: Sequence[str] = ()
    ) -> None:
        metadata = pod["metadata"]
        main = pod["spec"]["containers"][0]["name"]
        running = {"running": {"startedAt": _now()}}
        states = {main: state, **dict.fromkeys(beside, running)}
        known = (pod.get("status") or {}).get("conditions") or ()
        ready = {"type": "Ready", "status": "True" if _is_ready(pod, phase) else "False"}
        status = {
            "phase": phase,
            "podIP": self.address,
            "conditions": [*(one for one in known if one["type"] != "Ready"), ready],
            "containerStatuses": [
                {
                    "name": name,
                    "image": "",
                    "imageID": "",
                    "ready": phase == "Running",
                    "restartCount": 0,
                    "state": each,
                }
                for name, each in states.items()
            ],
        }
        with contextlib.suppress(NotFound):
            await self._client.patch_status(
                PODS, metadata["name"], metadata["namespace"], status=status
            )


@asynccontextmanager
async def standing_in(client: KubeClient, **options: Any) -> AsyncIterator[StandIn]:
    """Simulate kubelets during the block."""
    standin = StandIn(client, **options)
    task = asyncio.create_task(standin.run())
    try:
        yield standin
    finally:
        task.cancel()
        standin.close()
        await asyncio.gather(task, return_exceptions=True)


def _is_ready(pod: KubeObject, phase: str) -> bool:
    """Whether a pod is ready: with a readiness probe, only when the test says so."""
    is_master = pod["metadata"]["labels"].get(COMPONENT) == MASTER
    probed = "readinessProbe" in pod["spec"]["containers"][0]
    return phase == "Running" and (is_master or not probed)


def _now() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
