"""The module ``migration`` for workers, if the user has no module of that name."""

from __future__ import annotations

from resile.train.migrate.migrator import migrator
from resile.train.migrate.variable import MigratableVariable

__all__ = ["MigratableVariable", "migrator"]
