"""ElasticSampler: a replacement for DistributedSampler whose epochs survive world changes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sized
from pathlib import Path

from resile.train.data.batch_sizes import check_batch_size
from resile.train.data.elastic import ElasticWalk
from resile.train.data.errors import DataMistake
from resile.train.data.handed_out import Share

__all__ = ["ElasticSampler"]


class ElasticSampler(ElasticWalk):
    """Yields indices for ``DataLoader(dataset, batch_size=batch_size, sampler=...)``.

    ``batch_size`` is the DataLoader's, for one rank; a global batch is that times the number of
    ranks. Every index occurs once per epoch. The last global batch is as large as what is left and
    split as evenly as possible, so ranks may have one sample less than others in it, or none: use
    ``torch.distributed.algorithms.join.Join`` with plain DDP, or ``drop_last`` or ``pad``.

    The arguments of DistributedSampler come first, in its order. ``batch_size`` is required: it
    defines how many samples a training step counts. The others are as in
    :class:`~resile.train.data.elastic.WalkOptions`.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        *,
        batch_size: int | None = None,
        pad: bool = False,
        name: str | None = None,
        ledger: str | Path | None = None,
    ) -> None:
        if batch_size is None:
            raise DataMistake(
                "batch_size= is missing: pass the DataLoader's, as in ElasticSampler(dataset, "
                "batch_size=32); DistributedSampler needs none, but it defines what a step counts"
            )
        if batch_size < 1:
            raise DataMistake(f"batch_size={batch_size} must be at least 1")
        super().__init__(
            dataset,
            global_batch=lambda world: world * batch_size,
            num_replicas=num_replicas,
            rank=rank,
            shuffle=shuffle,
            seed=seed,
            drop_last=drop_last,
            pad=pad,
            name=name,
            ledger=ledger,
        )
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[int]:
        """Yield this rank's indices of the rest of the epoch."""
        check_batch_size(self, sys._getframe(1))
        return self._one_by_one(self._walk())

    def __len__(self) -> int:
        """Return the number of indices of the current iteration, from its start."""
        return sum(times * size for times, size in self._share_sizes())

    @property
    def has_uneven_end(self) -> bool:
        """Whether ranks may have different numbers of samples in the last batch of an epoch."""
        return not (self._cut.drop_last or self._cut.pad)

    def _one_by_one(self, walk: Iterator[Share]) -> Iterator[int]:
        for share in walk:
            for given, index in enumerate(share.indices, start=1):
                share.give(given)
                yield index
