"""A variable that moves with its job, restored where it is made.

    metrics = MigratableVariable({"epoch": -1, "best": 0.0}, "metrics")
    best = MigratableVariable(0.0, "best")      # best.value

What can be changed in place (models, optimizers, dictionaries, lists) comes back as itself. A plain
value cannot, so it comes in an object with a ``value``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resile.train.migrate.migrator import migrator

__all__ = ["MigratableVariable"]

_PLAIN = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))


class MigratableVariable:
    """Registers a value and restores it if the run resumes.

    Without a name variables are told apart by the order in which they are made.
    """

    value: Any

    def __new__(cls, value: Any, name: str | None = None) -> Any:
        """``value`` itself if it can be changed in place."""
        if not isinstance(value, _PLAIN):
            migrator.adopt(value, name)
            return value
        made = super().__new__(cls)
        made.value = value
        migrator.adopt(made, name)
        return made

    def state_dict(self) -> dict[str, Any]:
        """The value."""
        return {"value": self.value}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take a saved value."""
        self.value = state["value"]

    def __repr__(self) -> str:
        return f"MigratableVariable({self.value!r})"
