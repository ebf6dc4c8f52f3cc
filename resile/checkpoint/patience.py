"""How long to insist on something that may work again in a moment.

Storage goes away for a minute and comes back: what it failed to do is tried again, with growing
pauses, within a bound the caller gives. What it *refuses* (full, not allowed) is not tried again:
that needs a person or the pruning of old checkpoints.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from resile.checkpoint.errors import StorageRefused, StorageTrouble

__all__ = ["Patience", "insist"]

log = logging.getLogger("resile.checkpoint")

T = TypeVar("T")


@dataclass(frozen=True)
class Patience:
    """For how long, and with what pauses. There is always a first try."""

    seconds: float = 300.0
    """A network file system's server that restarts is back within a few minutes."""

    first_pause: float = 0.05
    longest_pause: float = 2.0
    """Trouble that is over is noticed within this; lists of object stores cost money."""

    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def tries(self) -> Iterator[int]:
        """Number the tries, pausing before each but the first, until the time is over."""
        deadline = self.clock() + self.seconds
        pause, number = self.first_pause, 0
        while True:
            yield number
            left = deadline - self.clock()
            if left <= 0:
                return
            self.sleep(min(pause, left))
            pause, number = min(pause * 2, self.longest_pause), number + 1


def insist(
    action: Callable[[], T], patience: Patience, *, tell: Callable[[str], None] = log.warning
) -> T:
    """What ``action`` returns, once storage lets it. ``tell`` hears of trouble the first time."""
    last: StorageTrouble | None = None
    for _ in patience.tries():
        try:
            return action()
        except StorageRefused:
            raise
        except StorageTrouble as trouble:
            if last is None and patience.seconds:
                tell(f"{trouble}; trying again for {patience.seconds:g} s")
            last = trouble
    assert last is not None
    if not patience.seconds:
        raise last
    raise StorageTrouble(f"{last} (tried for {patience.seconds:g} s)") from last
