"""Elastic data: each sample of each epoch is trained once, whatever happens to the workers.

Modules that lease shards from the master are imported on first use, so that a script with a sampler
does not load a network client each time one of its workers is restarted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resile.lazy_exports import lazy_exports
from resile.train.data.batches import ElasticBatchSampler
from resile.train.data.errors import (
    DataError,
    DataMistake,
    PositionMisfit,
    ReaderMissing,
    RecordDamaged,
)
from resile.train.data.readers import open_dataset
from resile.train.data.sampler import ElasticSampler

if TYPE_CHECKING:
    from resile.train.data.shardclient import ShardClient
    from resile.train.data.sharded import Pace, ShardedDataset
    from resile.train.data.sharded_line import LeaseLost, MasterGone, ShardError, ShardsRefused

__all__ = [
    "DataError",
    "DataMistake",
    "ElasticBatchSampler",
    "ElasticSampler",
    "LeaseLost",
    "MasterGone",
    "Pace",
    "PositionMisfit",
    "ReaderMissing",
    "RecordDamaged",
    "ShardClient",
    "ShardError",
    "ShardedDataset",
    "ShardsRefused",
    "open_dataset",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "LeaseLost": "resile.train.data.sharded_line",
        "MasterGone": "resile.train.data.sharded_line",
        "Pace": "resile.train.data.sharded",
        "ShardClient": "resile.train.data.shardclient",
        "ShardError": "resile.train.data.sharded_line",
        "ShardedDataset": "resile.train.data.sharded",
        "ShardsRefused": "resile.train.data.sharded_line",
    },
)
