"""The dependencies that all reconcilers share: client, caches, events, settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import aiohttp
import msgspec

from resile.job.compact import packed
from resile.job.status import JobStatus
from resile.operator.mergepatch import merge_patch
from resile.operator.settings import OperatorSettings
from resile.operator.telling import Teller
from resile.operator.world import World
from resile.platform.kubernetes.client import KubeClient
from resile.platform.kubernetes.errors import ApiError, KubeError, refuses_the_object
from resile.platform.kubernetes.kinds import ELASTIC_JOBS, Key, KubeObject

__all__ = ["Means", "StatusRefused"]


TOO_LARGE = "request is too large"
"""etcd's message, which the API server passes on as an internal error."""


class StatusRefused(KubeError):
    """The API server rejects a job's status."""


@dataclass(frozen=True)
class Means:
    """The shared dependencies of one operator."""

    client: KubeClient
    world: World
    session: aiohttp.ClientSession
    """For requests to the masters."""

    teller: Teller
    settings: OperatorSettings
    image: str
    """The image of masters of jobs that do not name one."""

    look_again: Callable[[Key], None]

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
            if refuses_the_object(error) or TOO_LARGE in str(error):
                raise StatusRefused(f"its status cannot be written: {error}") from None
            raise
        self.world.jobs.put(written)
        return written
