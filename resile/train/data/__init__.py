"""Elastic data: each sample of each epoch is trained once, whatever happens to the workers.

Modules that lease shards from the master are imported on first use, so that a script with a sampler
does not load a network client each time one of its workers is restarted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from resile.exports import lazy_exports
from resile.train.data.errors import (
    DataError,
    DataMistake,
    PositionMisfit,
    ReaderMissing,
    RecordDamaged,
)
from resile.train.data.readers import open_dataset
from resile.train.data.samplers.elastic_samplers import ElasticBatchSampler, ElasticSampler

if TYPE_CHECKING:
    from resile.train.data.sharded.dataset import Pace, ShardedDataset
    from resile.train.data.sharded.lease_sources import (
        LeaseLost,
        MasterGone,
        ShardError,
        ShardsRefused,
    )
    from resile.train.data.sharded.shard_client import ShardClient

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
        "LeaseLost": "resile.train.data.sharded.lease_sources",
        "MasterGone": "resile.train.data.sharded.lease_sources",
        "Pace": "resile.train.data.sharded.dataset",
        "ShardClient": "resile.train.data.sharded.shard_client",
        "ShardError": "resile.train.data.sharded.lease_sources",
        "ShardedDataset": "resile.train.data.sharded.dataset",
        "ShardsRefused": "resile.train.data.sharded.lease_sources",
    },
)
