"""Data: each sample of each epoch is trained once, whatever happens to the workers."""

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
