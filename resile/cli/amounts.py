"""Numbers as people read them: ages, clock times, memory."""

from __future__ import annotations

import time
from datetime import datetime

from resile.job.training import amount_in

__all__ = ["age", "clock", "count", "memory", "used_memory"]

_UNITS = (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024))


def age(since: float, now: float | None = None) -> str:
    """A duration in its two greatest units: ``3m12s``, ``2d4h``. Times are Unix times."""
    if not since:
        return "-"
    seconds = max(0, int((time.time() if now is None else now) - since))
    parts = ((seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"))
    shown = [f"{number}{unit}" for number, unit in (*parts, (seconds % 60, "s"))]
    first = next((n for n, (number, _) in enumerate(parts) if number), len(parts))
    return "".join(shown[first : first + 2])


def clock(when: float) -> str:
    """The time of day of a Unix time."""
    return datetime.fromtimestamp(when).strftime("%H:%M:%S")


def count(number: int | None) -> str:
    """A number, or a dash where there is none."""
    return "-" if number is None else str(number)


def used_memory(quantity: str) -> str:
    """Memory in use, of a node's view; a dash where it is not known."""
    size = amount_in(quantity)
    return "-" if size is None else memory(round(size))


def memory(size: int) -> str:
    """Bytes in the greatest unit that fits, with at most one decimal."""
    for unit, scale in _UNITS:
        if size >= scale:
            return f"{size / scale:.1f}".removesuffix(".0") + unit
    return str(size)
