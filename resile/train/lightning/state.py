"""The Trainer's training state beside model, optimizers and schedules.

Its loops' counters, the states of the precision (gradient scaler), the datamodule and the other
callbacks, and what ``on_save_checkpoint`` hooks add. Entries without saved state, or without a
counterpart now, are skipped: callbacks may be added and removed between two runs.

Lightning's own resume guesses from the counters in which hook a state was saved, and then skips or
repeats what it thinks follows. Here a state is always saved between two batches, so after resuming
every loop begins as usual: only totals are set, and the position in the epoch when its first batch
is requested. The counters have no public access; all use of them is in this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = [
    "LightningRecord",
    "counters",
    "go_on_at_batch",
    "set_counters",
]


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


class LightningRecord:
    """A Trainer's state; ``but`` is the callback that saves it, and is not included."""

    def __init__(self, trainer: Any, *, but: Any) -> None:
        self._trainer = trainer
        self._but = but
        self.over = False
        """Whether training has ended."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state: plain values and tensors, as far as callbacks and hooks use those."""
        trainer = self._trainer
        return {
            "counters": counters(trainer, over=self.over),
            "precision": trainer.precision_plugin.state_dict(),
            "datamodule": trainer.datamodule.state_dict() if trainer.datamodule else {},
            "callbacks": {key: one.state_dict() for key, one in self._callbacks()},
            "hooks": self._added_by_hooks(),
        }

    def load_state_dict(self, saved: Mapping[str, Any]) -> None:
        """Load a saved state. Weights are in place already."""
        trainer = self._trainer
        set_counters(trainer, saved["counters"])
        if saved["precision"]:
            trainer.precision_plugin.load_state_dict(saved["precision"])
        if trainer.datamodule and saved["datamodule"]:
            trainer.datamodule.load_state_dict(saved["datamodule"])
        self._give_to_hooks(saved["hooks"])
        for key, one in self._callbacks():
            if state := saved["callbacks"].get(key):
                one.load_state_dict(state)

    def _callbacks(self) -> Iterator[tuple[str, Any]]:
        for one in self._trainer.callbacks:
            if one is not self._but:
                yield one.state_key, one

    def _given(self) -> dict[str, Any]:
        """The content of a checkpoint for hooks. The parameters themselves, not copies: what a hook
        passes on is then stored once."""
        trainer = self._trainer
        return {
            "epoch": trainer.current_epoch,
            "global_step": trainer.global_step,
            "state_dict": trainer.lightning_module.state_dict(keep_vars=True),
        }

    def _added_by_hooks(self) -> dict[str, Any]:
        trainer, given = self._trainer, self._given()
        checkpoint = dict(given)
        for _, one in self._callbacks():
            one.on_save_checkpoint(trainer, trainer.lightning_module, checkpoint)
        trainer.lightning_module.on_save_checkpoint(checkpoint)
        return {key: one for key, one in checkpoint.items() if one is not given.get(key)}

    def _give_to_hooks(self, added: Mapping[str, Any]) -> None:
        trainer = self._trainer
        checkpoint = {**self._given(), **added}
        trainer.lightning_module.on_load_checkpoint(checkpoint)
        for _, one in self._callbacks():
            one.on_load_checkpoint(trainer, trainer.lightning_module, checkpoint)
