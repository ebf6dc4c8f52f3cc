"""The Trainer's training state beside model, optimizers and schedules.

Its loops' counters, the states of the precision (gradient scaler), the datamodule and the other
callbacks, and what ``on_save_checkpoint`` hooks add. Entries without saved state, or without a
counterpart now, are skipped: callbacks may be added and removed between two runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from resile.train.lightning.progress import counters, set_counters

__all__ = ["TrainerRecord"]


class TrainerRecord:
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
