"""Retries with backoff for storage operations.

Storage can be unavailable for a minute: failed operations are retried with growing pauses until a
timeout given by the caller. What storage *refuses* (full, not allowed) is not retried: that needs a
person or the pruning of old checkpoints.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from resile.checkpoint.errors import StorageError, StorageRefused

__all__ = ["RetryPolicy", "retry"]

log = logging.getLogger("resile.checkpoint")

T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """A retry policy: timeout and pauses. There is always a first try."""

    seconds: float = 300.0
    """The timeout. The server of a network file system restarts within a few minutes."""

    first_pause: float = 0.05
    longest_pause: float = 2.0
    """Recovery is noticed within this; listing an object store costs money."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def tries(self) -> Iterator[int]:
        """Yield the number of each try, with a pause before each but the first, until the
        timeout."""
        deadline = self.clock() + self.seconds
        pause, number = self.first_pause, 0
        while True:
            yield number
            left = deadline - self.clock()
            if left <= 0:
                return
            self.sleep(min(pause, left))
            pause, number = min(pause * 2, self.longest_pause), number + 1


def retry(
    action: Callable[[], T], policy: RetryPolicy, *, tell: Callable[[str], None] = log.warning
) -> T:
    """Call ``action`` until it succeeds; returns its result. The first error is reported to
    ``tell``."""
    last: StorageError | None = None
    for _ in policy.tries():
        try:
            return action()
        except StorageRefused:
            raise
        except StorageError as trouble:
            if last is None and policy.seconds:
                tell(f"{trouble}; retrying for {policy.seconds:g} s")
            last = trouble
    assert last is not None
    if not policy.seconds:
        raise last
    raise StorageError(f"{last} (retried for {policy.seconds:g} s)") from last
