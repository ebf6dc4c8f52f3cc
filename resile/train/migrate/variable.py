"""A variable that is saved with its job and restored where it is created.

    metrics = MigratableVariable({"epoch": -1, "best": 0.0}, "metrics")
    best = MigratableVariable(0.0, "best")      # best.value

Objects that can be changed in place (models, optimizers, dictionaries, lists) are returned as they
are. A plain value cannot, so it is wrapped in an object with a ``value``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from resile.train.migrate.migrator import migrator

__all__ = ["MigratableVariable"]

_PLAIN = (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))


class MigratableVariable:
    """Registers a value and restores it if the run resumes.

    Without a name variables are identified by the order in which they are created.
    """

    value: Any

    def __new__(cls, value: Any, name: str | None = None) -> Any:
        """Return ``value`` itself if it can be changed in place."""
        if not isinstance(value, _PLAIN):
            migrator.adopt(value, name)
            return value
        made = super().__new__(cls)
        made.value = value
        migrator.adopt(made, name)
        return made

    def state_dict(self) -> dict[str, Any]:
        """Return the value."""
        return {"value": self.value}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a saved value."""
        self.value = state["value"]

    def __repr__(self) -> str:
        return f"MigratableVariable({self.value!r})"
