"""Names of a package that are imported on first use (PEP 562), and those of ``resile`` itself.

Separate from the package itself, since the agent reads it, too: it preloads what a script will
import, and must not depend on the modules themselves. This module is in the bottom layer: it
imports no other module of Resile.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

EXPORTS = {
    "Auto": "resile.train.checkpoint.options",
    "Checkpointer": "resile.train.checkpoint.checkpointer",
    "ElasticBatchSampler": "resile.train.data",
    "ElasticSampler": "resile.train.data",
    "ElasticTrainer": "resile.train.batch",
    "MigratableVariable": "resile.train.migrate.variable",
    "ShardClient": "resile.train.data",
    "ShardedDataset": "resile.train.data",
    "addresses": "resile.train.addresses",
    "migrator": "resile.train.migrate.migrator",
    "open_dataset": "resile.train.data",
    "report": "resile.train.progress",
    "find_job": "resile.client.api",
    "submit": "resile.client.api",
    "wait": "resile.client.api",
}


def lazy_exports(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """Build a package's ``__getattr__``. ``homes``: the module that each name is imported from."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return find
