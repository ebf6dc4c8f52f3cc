"""A Trainer's training data in an order that any number of workers can continue.

Lightning computes its plan (batches of an epoch, when to validate) from the loader's length. So the
length stays that of a whole epoch, whatever is left of it, and every epoch of a world has the same
length: each update takes the same number of batches, an incomplete last one is filled up or, with
``drop_last``, dropped.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
)

from resile.train.data import ElasticSampler
from resile.train.data.errors import DataMistake
from resile.train.data.third_party import check_indexed

__all__ = ["EpochSampler", "check_loader", "epoch_sampler"]


class EpochSampler(DistributedSampler):  # type: ignore[misc]  # torch is not followed by mypy
    """Samples the rest of an epoch, with the length of a whole one.

    It is a DistributedSampler because Lightning replaces anything else with its own.
    ``set_epoch`` only stores the number: Lightning calls it before the previous epoch is counted.
    """

    def __init__(self, elastic: ElasticSampler, *, micro_batch: int, shuffle: bool) -> None:
        super().__init__(
            elastic.dataset,
            num_replicas=elastic.num_replicas,
            rank=elastic.rank,
            shuffle=shuffle,
        )
        self.elastic = elastic
        self._micro_batch = micro_batch
        self._whole = len(elastic)

    def __iter__(self) -> Iterator[int]:
        return iter(self.elastic)

    def __len__(self) -> int:
        return self._whole

    @property
    def batches_done(self) -> int:
        """Number of batches of this epoch that are done. After a change of the world: the number
        that leaves just enough for the rest."""
        return (self._whole - len(self.elastic)) // self._micro_batch


def check_loader(loader: Any) -> None:
    """Raise DataMistake for a loader that cannot be read in another order."""
    if not isinstance(loader, DataLoader):
        raise DataMistake(
            f"the training data must be one DataLoader, not a {type(loader).__name__}"
        )
    check_indexed(loader.dataset, name="the dataset of the training DataLoader")
    if loader.batch_size is None or type(loader.batch_sampler) is not BatchSampler:
        raise DataMistake(
            "the training DataLoader must make its own batches: set batch_size, and no "
            "batch_sampler"
        )


def epoch_sampler(loader: Any, *, accumulated: int, rank: int, world: int) -> EpochSampler:
    """Build the sampler of ``loader`` for one of ``world`` workers; an update has ``accumulated``
    batches of each."""
    shuffle = _is_shuffled(loader.sampler)
    elastic = ElasticSampler(
        loader.dataset,
        batch_size=loader.batch_size * accumulated,
        num_replicas=world,
        rank=rank,
        shuffle=shuffle,
        seed=int(os.environ.get("PL_GLOBAL_SEED", "0")),
        drop_last=loader.drop_last,
        pad=not loader.drop_last,
        name="train",
    )
    return EpochSampler(elastic, micro_batch=loader.batch_size, shuffle=shuffle)


def _is_shuffled(sampler: Any) -> bool:
    if isinstance(sampler, SequentialSampler):
        return False
    if isinstance(sampler, RandomSampler):
        if not sampler.replacement and sampler.num_samples == len(sampler.data_source):
            return True
    elif type(sampler) is DistributedSampler:
        return bool(sampler.shuffle)
    raise DataMistake(
        f"the training DataLoader has a {type(sampler).__name__} with its own order, which "
        "cannot be resumed: remove the sampler, and set shuffle"
    )
