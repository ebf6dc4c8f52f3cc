"""What the Trainer knows of its training beside model, optimizer and schedule.

Kept as JSON text, as the Trainer itself writes it to ``trainer_state.json``.
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
"""Of TrainerState, what belongs to the training; the rest belongs to this process and this run."""


class TrainerRecord:
    """The Trainer's state and that of its callbacks (patience of early stopping and the like)."""

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer
        self.stopped = False
        """Whether training ended before its last step, as early stopping wanted it."""

    def state_dict(self) -> dict[str, str]:
        """As one text."""
        state = self._trainer.state
        kept = {name: getattr(state, name) for name in _KEPT if hasattr(state, name)}
        callbacks = {key: one.state()["attributes"] for key, one in self._callbacks()}
        record = {"state": kept, "callbacks": callbacks, "stopped": self.stopped}
        return {"json": json.dumps(record)}

    def load_state_dict(self, saved: Mapping[str, str]) -> None:
        """Go on from there. A callback that was not there before is left as it is."""
        record = decode_python_json(saved["json"])
        self.stopped = record.get("stopped", False)
        for name, value in record["state"].items():
            setattr(self._trainer.state, name, value)
        for key, one in self._callbacks():
            for name, value in record["callbacks"].get(key, {}).items():
                setattr(one, name, value)

    def _callbacks(self) -> Iterator[tuple[str, Any]]:
        """Those that have state, by their type and which of that type they are."""
        seen: dict[str, int] = {}
        for one in self._trainer.callback_handler.callbacks:
            if isinstance(one, ExportableState):
                name = type(one).__name__
                seen[name] = seen.get(name, -1) + 1
                yield f"{name}/{seen[name]}", one
