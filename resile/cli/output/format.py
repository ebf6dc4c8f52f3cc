"""Amounts, durations and training progress as text."""

from __future__ import annotations

import time
from datetime import datetime

from resile.job.throughput import rate_in, speed_text
from resile.job.training import amount_in
from resile.job.view import JobView

__all__ = [
    "age",
    "clock",
    "count",
    "memory",
    "nothing_left",
    "progress_facts",
    "used_memory",
]


_UNITS = (("Gi", 1024**3), ("Mi", 1024**2), ("Ki", 1024))


def age(since: float, now: float | None = None) -> str:
    """Format a duration in its two greatest units: ``3m12s``, ``2d4h``. Times are Unix times."""
    if not since:
        return "-"
    seconds = max(0, int((time.time() if now is None else now) - since))
    parts = ((seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"))
    shown = [f"{number}{unit}" for number, unit in (*parts, (seconds % 60, "s"))]
    first = next((n for n, (number, _) in enumerate(parts) if number), len(parts))
    return "".join(shown[first : first + 2])


def clock(when: float) -> str:
    """Format the time of day of a Unix time."""
    return datetime.fromtimestamp(when).strftime("%H:%M:%S")


def count(number: int | None) -> str:
    """Format a number; a dash for None."""
    return "-" if number is None else str(number)


def used_memory(quantity: str) -> str:
    """Format the memory in use of a node's view; a dash if it is not known."""
    size = amount_in(quantity)
    return "-" if size is None else memory(round(size))


def memory(size: int) -> str:
    """Format bytes in the greatest unit that fits, with at most one decimal."""
    for unit, scale in _UNITS:
        if size >= scale:
            return f"{size / scale:.1f}".removesuffix(".0") + unit
    return str(size)


def progress_facts(view: JobView, *, rate: float | None = None) -> list[str]:
    """Return the known facts, a few words each: ``step 30 of 100 (30%)``, ``2 steps/s``,
    ``35s left``, ``loss 0.25``.

    ``rate``: steps per second, if measured here; else the value of the master or operator is used.
    """
    seen, status = view.training, view.status
    if seen is not None:
        step, total, loss, speed = seen.step, seen.total_steps, seen.loss, seen.throughput
    elif status is not None:
        step, total, loss, speed = status.step, status.total_steps, status.loss, status.throughput
    else:
        return []
    resumed = _resumed(view)
    if step is None:
        return resumed
    rate = rate or rate_in(speed)
    facts = [_step(step, total), speed_text(rate), _left(step, total, rate)]
    facts.append("" if loss is None else f"loss {loss:.4g}")
    return [*(fact for fact in facts if fact), *resumed]


def nothing_left(view: JobView) -> str:
    """Return a sentence for a training that was complete when it was started; else empty."""
    seen = view.training
    if seen is None or seen.resumed is None or (seen.step or 0) >= seen.resumed:
        return ""
    return (
        f"It resumed at step {seen.resumed} from {seen.source}, and nothing was left to do: "
        "what was trained before is complete"
    )


def _resumed(view: JobView) -> list[str]:
    seen = view.training
    if seen is None or seen.resumed is None:
        return []
    return [f"resumed at {seen.resumed} from {seen.source}"]


def _step(step: int, total: int | None) -> str:
    if not total or total < 0:
        return f"step {step}"
    return f"step {step} of {total} ({min(100, max(0, 100 * step // total))}%)"


def _left(step: int, total: int | None, rate: float | None) -> str:
    if not total or not rate or step >= total:
        return ""
    return f"{age(1.0, 1.0 + (total - step) / rate)} left"
