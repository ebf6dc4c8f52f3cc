"""Elastic, fault-tolerant distributed training.

What a training script uses, and what gives jobs to a cluster, is imported when it is first asked
for, so that the command line does not pay for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from resile.platform.kubernetes.jobs import submit, wait
    from resile.train.batch import ElasticTrainer
    from resile.train.checkpoint.checkpointer import Checkpointer
    from resile.train.checkpoint.policy import Auto
    from resile.train.data import (
        ElasticBatchSampler,
        ElasticSampler,
        ShardClient,
        ShardedDataset,
        open_dataset,
    )
    from resile.train.migrate.migrator import migrator
    from resile.train.migrate.variable import MigratableVariable
    from resile.train.progress import report

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "Auto",
    "Checkpointer",
    "ElasticBatchSampler",
    "ElasticSampler",
    "ElasticTrainer",
    "MigratableVariable",
    "ShardClient",
    "ShardedDataset",
    "migrator",
    "open_dataset",
    "report",
    "submit",
    "wait",
]

_HOMES = {
    "Auto": "resile.train.checkpoint.policy",
    "Checkpointer": "resile.train.checkpoint.checkpointer",
    "ElasticBatchSampler": "resile.train.data",
    "ElasticSampler": "resile.train.data",
    "ElasticTrainer": "resile.train.batch",
    "MigratableVariable": "resile.train.migrate.variable",
    "ShardClient": "resile.train.data",
    "ShardedDataset": "resile.train.data",
    "migrator": "resile.train.migrate.migrator",
    "open_dataset": "resile.train.data",
    "report": "resile.train.progress",
    "submit": "resile.platform.kubernetes.jobs",
    "wait": "resile.platform.kubernetes.jobs",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'resile' has no attribute '{name}'")
    return getattr(importlib.import_module(_HOMES[name]), name)
