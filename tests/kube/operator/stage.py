"""Operations of a test in one namespace."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from resile.kube.client import KubeClient
from resile.kube.errors import ApiUnreachable, NotFound
from resile.kube.resources import ELASTIC_JOBS, EVENTS, PODS, KubeObject
from resile.operator.build.labels import COMPONENT, ID, JOB, NODE, RANK

PATIENCE = 60.0

T = TypeVar("T")


async def eventually(
    look: Callable[[], Awaitable[T]], what: str, *, patience: float = PATIENCE
) -> T:
    """Retry until the result is true; missing objects and an unavailable server are retried."""
    deadline = time.monotonic() + patience
    seen: object = None
    while time.monotonic() < deadline:
        try:
            seen = await look()
        except (NotFound, ApiUnreachable) as error:
            seen = error
        else:
            if seen:
                return seen
        await asyncio.sleep(0.02)
    raise AssertionError(f"timed out after {patience:g} s waiting for {what}; last seen: {seen}")


class Stage:
    """Jobs, pods and events of a client's namespace."""

    def __init__(self, client: KubeClient) -> None:
        self.client = client

    async def create(self, name: str, role: dict[str, Any], **spec: Any) -> KubeObject:
        """Create a job of one role, ``worker``."""
        worker = {"image": "train:test", "script": "train.py", **role}
        job = {"metadata": {"name": name}, "spec": {"roles": {"worker": worker}, **spec}}
        return await self.client.create(ELASTIC_JOBS, job)

    async def job(self, name: str) -> KubeObject:
        return await self.client.get(ELASTIC_JOBS, name)

    async def status(self, name: str) -> dict[str, Any]:
        return (await self.job(name)).get("status") or {}

    async def pods(self, name: str, component: str = NODE) -> list[KubeObject]:
        labels = f"{JOB}={name},{COMPONENT}={component}"
        found = await self.client.list(PODS, namespace=self.client.namespace, labels=labels)
        return [pod for pod in found.items if "deletionTimestamp" not in pod["metadata"]]

    async def nodes(self, name: str) -> dict[int, int]:
        """The ranks of the nodes by id."""
        labels = [pod["metadata"]["labels"] for pod in await self.pods(name)]
        return {int(one[ID]): int(one[RANK]) for one in labels}

    async def events(self, name: str) -> list[str]:
        found = await self.client.list(EVENTS, namespace=self.client.namespace)
        return [
            f"{one['reason']}: {one['message']}"
            for one in found.items
            if one["involvedObject"]["name"] == name
        ]

    async def told(self, name: str, words: str) -> None:
        """Wait for an event on an object."""

        async def look() -> bool:
            return any(words in event for event in await self.events(name))

        await eventually(look, f"an event on {name}: {words}")

    async def delete_slowly(self, pod: str) -> None:
        """Delete a pod that stays for a while, like one with a grace period on a machine."""
        held = {"metadata": {"finalizers": ["resile.dev/test"]}}
        await self.client.patch(PODS, pod, held)
        await self.client.delete(PODS, pod)

    async def let_go(self, pod: str) -> None:
        """Let a deleted pod go."""
        await self.client.patch(PODS, pod, {"metadata": {"finalizers": None}})

    async def has_nodes(self, name: str, count: int) -> list[KubeObject]:
        async def look() -> tuple[list[KubeObject], ...]:
            pods = await self.pods(name)
            return (pods,) if len(pods) == count else ()

        (found,) = await eventually(look, f"{count} nodes of {name}")
        return found

    async def has_phase(self, name: str, phase: str) -> dict[str, Any]:
        async def look() -> dict[str, Any]:
            status = await self.status(name)
            return status if status.get("phase") == phase else {}

        return await eventually(look, f"{name} to be {phase}")

    async def condition(self, name: str, kind: str, says: str) -> dict[str, Any]:
        """Return the condition whose reason or message contains these words."""

        async def look() -> dict[str, Any]:
            for one in (await self.status(name)).get("conditions") or ():
                if one["type"] == kind and says in f"{one['reason']} {one['message']}":
                    found: dict[str, Any] = one
                    return found
            return {}

        return await eventually(look, f"{name}'s condition {kind} to say '{says}'")
