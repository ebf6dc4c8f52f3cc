"""Elastic, fault-tolerant distributed training.

The names that training scripts use, and those that submit jobs, are imported on first use, so that
the command line starts fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resile.exports import EXPORTS, lazy_exports

if TYPE_CHECKING:
    from resile.client.api import find_job, submit, wait
    from resile.train.addresses import addresses
    from resile.train.batch import ElasticTrainer
    from resile.train.checkpoint.checkpointer import Checkpointer
    from resile.train.checkpoint.options import Auto
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
    "addresses",
    "find_job",
    "migrator",
    "open_dataset",
    "report",
    "submit",
    "wait",
]

__getattr__ = lazy_exports(__name__, EXPORTS)
