"""Wait for a job: until it trains, or until it is over."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Literal, TypeAlias, TypeVar

from resile.client.cluster.job_object import STATUS_STALE
from resile.client.cluster.retry import TIMEOUT, is_transient, retry_unavailable
from resile.client.cluster.startup_progress import is_training
from resile.client.errors import JobEnded, WaitTimeout
from resile.client.find import ClusterUnavailable
from resile.client.job import CRASHED, DELETED, INTERRUPTED, Job
from resile.job.status import JobPhase
from resile.job.view import JobView
from resile.kube.errors import ApiUnreachable, KubeError

__all__ = ["Until", "JobWait"]

Until: TypeAlias = Literal["running", "finished"]

LEAST = 1.0
"""Minimum timeout of a request in seconds, however little time is left: one is always sent."""

T = TypeVar("T")


class JobWait:
    """A wait for a state of a job, with its timeout."""

    def __init__(self, until: Until, timeout: float | None) -> None:
        if until not in ("running", "finished"):
            raise ValueError(f"until is 'running' or 'finished', not {until!r}")
        self._until = until
        self._timeout = timeout
        self._deadline = math.inf if timeout is None else time.monotonic() + timeout

    async def find(self, name: str, look: Callable[[], Awaitable[Job]]) -> Job:
        """Return what ``look`` finds, retried while the API server is unavailable."""

        async def search(within: float) -> Job:
            return await retry_unavailable(lambda: _hurried(look(), within), within=within)

        return await self._in_time(name, search)

    async def wait(self, job: Job) -> JobView:
        """Return the view of the job when it has reached the state."""
        while True:
            view = await self._in_time(job.name, lambda within: job.view(within=within))
            if await self._has_come(job, view):
                return view
            if time.monotonic() >= self._deadline:
                message = STATUS_STALE if _is_stale(job, view) else view.message
                raise self._timed_out(job.name, f"{view.phase}: {message}".removesuffix(": "))
            await asyncio.sleep(job.poll_interval)

    async def _has_come(self, job: Job, view: JobView) -> bool:
        over = view.status is not None and view.status.finished
        if view.phase == JobPhase.SUCCEEDED or (over and self._until == "finished"):
            return True
        if self._until == "running" and is_training(view) and not _is_stale(job, view):
            return True
        phase = await job.phase(view)
        if phase == DELETED:
            raise JobEnded(f"the job '{job.name}' was deleted")
        if phase in (CRASHED, INTERRUPTED):
            raise JobEnded(f"the job '{job.name}' is not running ({phase})")
        if over:
            raise JobEnded(f"the job '{job.name}' is over ({view.phase}): {view.message}")
        return False

    async def _in_time(self, name: str, look: Callable[[float], Awaitable[T]]) -> T:
        """Return the result of ``look``, called with the seconds for which it may retry."""
        left = self._deadline - time.monotonic()
        try:
            return await look(min(TIMEOUT, max(LEAST, left)))
        except KubeError as error:
            if left > TIMEOUT or not is_transient(error):
                raise
            raise self._timed_out(name, str(error)) from error

    def _timed_out(self, name: str, why: str) -> WaitTimeout:
        return WaitTimeout(
            f"the job '{name}' is not {self._until} after {self._timeout:g} s ({why})"
        )


async def _hurried(look: Awaitable[Job], within: float) -> Job:
    """Return what ``look`` finds; a cluster that is down raises a KubeError that can be retried."""
    try:
        return await asyncio.wait_for(look, within)
    except asyncio.TimeoutError:
        raise ApiUnreachable(f"the cluster has not answered for {within:g} s") from None
    except ClusterUnavailable as error:
        if isinstance(error.cause, KubeError) and is_transient(error.cause):
            raise error.cause from None
        raise


def _is_stale(job: Job, view: JobView) -> bool:
    """Return whether the status is that of an earlier manifest."""
    return job.unseen and view.status is not None
