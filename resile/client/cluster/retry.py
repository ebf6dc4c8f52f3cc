"""Retries of requests while an API server is unavailable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from resile.kube.errors import ApiError, ApiUnreachable, KubeError

__all__ = ["PAUSE", "TIMEOUT", "is_transient", "retry_unavailable"]

TIMEOUT = 45.0
"""Seconds. An API server that is restarted is back in ten to thirty."""

PAUSE = 0.5

T = TypeVar("T")


async def retry_unavailable(work: Callable[[], Awaitable[T]], *, within: float = TIMEOUT) -> T:
    """Return the result of ``work``, retried for so many seconds if the server is unavailable."""
    deadline = time.monotonic() + within
    while True:
        try:
            return await work()
        except KubeError as error:
            if not is_transient(error) or time.monotonic() + PAUSE > deadline:
                raise
        await asyncio.sleep(PAUSE)


def is_transient(error: KubeError) -> bool:
    """Return whether the same request may succeed later."""
    if isinstance(error, ApiError):
        return error.status >= 500 or error.status == 429
    return isinstance(error, ApiUnreachable)
