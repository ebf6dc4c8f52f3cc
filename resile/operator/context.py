"""The settings of an operator, and the dependencies that all its reconcilers share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec

from resile.control.policy import DEFAULT_POLICY, Policy
from resile.job.compact_status import packed
from resile.job.status import JobStatus
from resile.kube.client import KubeClient
from resile.kube.errors import ApiError, KubeError, rejects_object
from resile.kube.resources import ELASTIC_JOBS, Key, KubeObject
from resile.operator.events import JobEventReporter
from resile.operator.informers import Informers
from resile.wire.endpoint import Endpoint

__all__ = [
    "OperatorContext",
    "OperatorOptions",
    "OperatorSettings",
    "StatusRefused",
    "merge_patch",
]


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the patch from ``old`` to ``new``; empty if they are equal. Lists are replaced as a
    whole; removed keys are None."""
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        before = old.get(key)
        if key in old and before == value:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            patch[key] = merge_patch(before, value)
        else:
            patch[key] = value
    return patch


@dataclass(frozen=True, kw_only=True)
class OperatorSettings:
    """The behaviour of one operator."""

    namespace: str | None = None
    """The only namespace whose jobs are reconciled; None: all namespaces."""

    workers: int = 8
    """Jobs that are reconciled concurrently: mostly they wait for the API server."""

    refresh_seconds: float = 10.0
    """Interval at which a job's step and throughput are updated in its status. Every write goes to
    all watchers, so this is not a live view."""

    retry_seconds: float = 5.0
    """Interval at which a pod that the API server rejected is retried: quota that a user has freed
    should be used within the 10 s in which they look for it."""

    master_timeout: float = 2.0
    """Timeout for the master's answer when a job may be over."""

    policy: Policy = DEFAULT_POLICY


@dataclass(frozen=True, kw_only=True)
class OperatorOptions:
    """The cluster to connect to, and how this process runs."""

    settings: OperatorSettings
    listen: Endpoint
    identity: str
    image: str | None = None
    """The image of masters; None: that of ``pod``."""

    pod: Key | None = None
    """The operator's own pod, if it runs in one."""

    kubeconfig: str | None = None
    context: str | None = None
    elect: bool = True
    lease_namespace: str | None = None


TOO_LARGE = "request is too large"
"""etcd's message, which the API server passes on as an internal error."""


class StatusRefused(KubeError):
    """The API server rejects a job's status."""


@dataclass(frozen=True)
class OperatorContext:
    """The shared dependencies of one operator."""

    client: KubeClient
    world: Informers
    session: aiohttp.ClientSession
    """For requests to the masters."""

    reporter: JobEventReporter
    settings: OperatorSettings
    image: str
    """The image of masters of jobs that do not name one."""

    requeue: Callable[[Key], None]

    async def write(self, job: KubeObject, status: JobStatus) -> KubeObject:
        """Write a job's status over the version that was read; raises Conflict if it has changed
        since. Returns the updated job."""
        metadata = job["metadata"]
        # The phase even when it is the default: kubectl shows it in a column.
        wanted = {"phase": status.phase.value, **msgspec.to_builtins(packed(status))}
        patch = merge_patch(job.get("status") or {}, wanted)
        try:
            written = await self.client.patch_status(
                ELASTIC_JOBS,
                metadata["name"],
                metadata["namespace"],
                status=patch,
                resource_version=metadata["resourceVersion"],
            )
        except ApiError as error:
            if rejects_object(error) or TOO_LARGE in str(error):
                raise StatusRefused(f"its status cannot be written: {error}") from None
            raise
        self.world.jobs.put(written)
        return written
