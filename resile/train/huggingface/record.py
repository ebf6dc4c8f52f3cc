"""The Trainer's training state beside model, optimizer and schedule.

Saved as JSON text, as the Trainer itself writes it to ``trainer_state.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from transformers.trainer_callback import ExportableState

from resile.decoding import decode_python_json

__all__ = ["TrainerRecord"]

_KEPT = (
    "global_step",
    "epoch",
    "total_flos",
    "num_input_tokens_seen",
    "best_metric",
    "best_global_step",
    "best_model_checkpoint",
    "log_history",
)
"""The fields of TrainerState that belong to the training; the rest belongs to this process."""


class TrainerRecord:
    """The Trainer's state and that of its callbacks (patience of early stopping and the like)."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.stopped = False
        """Whether training ended before its last step, by early stopping."""

    def state_dict(self) -> dict[str, str]:
        """Return the state as one text."""
        state = self._trainer.state
        kept = {name: getattr(state, name) for name in _KEPT if hasattr(state, name)}
        callbacks = {key: one.state()["attributes"] for key, one in self._callbacks()}
        record = {"state": kept, "callbacks": callbacks, "stopped": self.stopped}
        return {"json": json.dumps(record)}

    def load_state_dict(self, saved: Mapping[str, str]) -> None:
        """Load a saved state. A callback without saved state is left as it is."""
        record = decode_python_json(saved["json"])
        self.stopped = record.get("stopped", False)
        for name, value in record["state"].items():
            setattr(self._trainer.state, name, value)
        for key, one in self._callbacks():
            for name, value in record["callbacks"].get(key, {}).items():
                setattr(one, name, value)

    def _callbacks(self) -> Iterator[tuple[str, Any]]:
        """The callbacks with state, by type and number within the type."""
        seen: dict[str, int] = {}
        for one in self._trainer.callback_handler.callbacks:
            if isinstance(one, ExportableState):
                name = type(one).__name__
                seen[name] = seen.get(name, -1) + 1
                yield f"{name}/{seen[name]}", one
