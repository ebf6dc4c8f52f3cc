"""How far a training is, in words: its step, the share that is done, the time left, the loss."""

from __future__ import annotations

from resile.cli.amounts import age
from resile.job.view import JobView
from resile.wire.throughput import rate_in, speed_text

__all__ = ["nothing_left", "progress_facts"]


def progress_facts(view: JobView, *, rate: float | None = None) -> list[str]:
    """As far as they are known, each a few words: ``step 30 of 100 (30%)``, ``2 steps/s``,
    ``35s left``, ``loss 0.25``.

    ``rate``: steps a second, if it was measured here; else what the master or operator told.
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
    """What to say of a training that was complete when it was started; empty if it was not."""
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
