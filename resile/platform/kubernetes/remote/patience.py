"""Waiting for an API server that is away, as long as it may come back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from resile.platform.kubernetes.errors import ApiError, KubeError, Unreachable

__all__ = ["PATIENCE", "RETRY", "may_pass", "patiently"]

PATIENCE = 45.0
"""An API server that is restarted is back in ten to thirty seconds."""

RETRY = 0.5

T = TypeVar("T")


def patiently(work: Callable[[], T], *, within: float = PATIENCE) -> T:
    """The result of ``work``, tried again for so many seconds while the API server is away."""
    deadline = time.monotonic() + within
    while True:
        try:
            return work()
        except KubeError as error:
            if not may_pass(error) or time.monotonic() + RETRY > deadline:
                raise
        time.sleep(RETRY)


def may_pass(error: KubeError) -> bool:
    """Whether the same request may be answered in a while."""
    if isinstance(error, ApiError):
        return error.status >= 500 or error.status == 429
    return isinstance(error, Unreachable)
