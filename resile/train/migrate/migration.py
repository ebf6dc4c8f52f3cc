"""What ``from migration import …`` gives to workers, if no module of the user's has that name."""

from __future__ import annotations

from resile.train.migrate.migrator import migrator
from resile.train.migrate.variable import MigratableVariable

__all__ = ["MigratableVariable", "migrator"]
