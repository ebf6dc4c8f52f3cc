"""Reads and sets the counters of Lightning's loops.

Lightning's own resume guesses from the counters in which hook a state was saved, and then skips or
repeats what it thinks follows. Here a state is always saved between two batches, so after resuming
every loop begins as usual: only totals are set, and the position in the epoch when its first batch
is requested.

The counters have no public access; all use of them is in this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["counters", "go_on_at_batch", "set_counters"]


def counters(trainer: Any, *, over: bool) -> dict[str, Any]:
    """Return all counters that continue after a resume; ``over`` once training has ended."""
    loop = trainer.fit_loop.epoch_loop
    cut_short = over and not _reached_end_of_epoch(trainer)
    return {
        "epochs": trainer.current_epoch - cut_short,
        "batches": loop.batch_progress.total.completed,
        "logged_steps": loop._batches_that_stepped,
        "optimizers": loop.automatic_optimization.optim_progress.state_dict(),
        "manual": loop.manual_optimization.optim_step_progress.state_dict(),
        "schedulers": loop.scheduler_progress.state_dict(),
        "should_stop": bool(trainer.should_stop),
    }


def set_counters(trainer: Any, saved: Mapping[str, Any]) -> None:
    """Set the saved numbers of epochs, batches and steps, before training begins."""
    loop = trainer.fit_loop.epoch_loop
    _count(trainer.fit_loop.epoch_progress.total, saved["epochs"])
    _count(trainer.fit_loop.epoch_progress.current, saved["epochs"])
    _count(loop.batch_progress.total, saved["batches"])
    loop._batches_that_stepped = saved["logged_steps"]
    loop.automatic_optimization.optim_progress.load_state_dict(saved["optimizers"])
    loop.manual_optimization.optim_step_progress.load_state_dict(saved["manual"])
    loop.scheduler_progress.load_state_dict(saved["schedulers"])
    trainer.should_stop = saved["should_stop"]


def go_on_at_batch(trainer: Any, batch: int) -> None:
    """Set the number of the next batch in its epoch. Called while it is requested."""
    _count(trainer.fit_loop.epoch_loop.batch_progress.current, batch)
    trainer.fit_loop._data_fetcher.fetched += batch


def _count(tracker: Any, done: int) -> None:
    """Set a tracker to ``done``, with nothing in progress."""
    tracker.load_state_dict(dict.fromkeys(tracker.state_dict(), done))


def _reached_end_of_epoch(trainer: Any) -> bool:
    """Whether the last epoch was trained to its end, and not ended by max_steps or should_stop."""
    progress = trainer.fit_loop.epoch_loop.batch_progress
    return bool(
        progress.is_last_batch or progress.current.ready in (0, trainer.num_training_batches)
    )
