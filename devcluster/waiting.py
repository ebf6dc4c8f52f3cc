"""Wait for a condition."""

import time
from collections.abc import Callable


def holds_within(seconds: float, condition: Callable[[], bool], *, pause: float = 0.1) -> bool:
    """Whether the condition became true in time; it is checked at least once."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(pause)
    return True
