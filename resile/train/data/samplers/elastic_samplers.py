"""The elastic samplers, whose epochs survive any change of the world.

ElasticSampler replaces DistributedSampler. ElasticBatchSampler keeps the samples of the k-th
global batch the same at any world size. A DataLoader passes nothing to its sampler; its
BatchSampler requests an iterator, and that is the moment in which their batch sizes are compared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sized
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from torch.utils.data import BatchSampler

from resile.train.data.errors import DataMistake
from resile.train.data.samplers.base_sampler import BaseElasticSampler, SamplerOptions
from resile.train.data.samplers.position import Share

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "ElasticBatchSampler",
    "ElasticSampler",
    "check_batch_size",
]


def check_batch_size(sampler: Any, caller: FrameType | None) -> None:
    """Raise DataMistake if ``caller`` is a BatchSampler over ``sampler`` with different batches.

    ``caller``: the frame that requested the iterator.
    """
    asks = caller.f_locals.get("self") if caller is not None else None
    if not isinstance(asks, BatchSampler) or asks.sampler is not sampler:
        return
    if asks.batch_size != sampler.batch_size:
        raise DataMistake(
            f"the DataLoader's batch_size={asks.batch_size} differs from its sampler's "
            f"batch_size={sampler.batch_size}, which counts a training step: set both to the same "
            "number. If a step has several batches, use ElasticBatchSampler(dataset, "
            "global_batch=..., micro_batch=...) as batch_sampler="
        )
    if asks.drop_last and sampler.has_uneven_end:
        raise DataMistake(
            "the DataLoader's drop_last=True drops samples on some ranks only, and these would "
            "count as trained: set drop_last=True on the ElasticSampler instead"
        )


class ElasticSampler(BaseElasticSampler):
    """Yields indices for ``DataLoader(dataset, batch_size=batch_size, sampler=...)``.

    ``batch_size`` is the DataLoader's, for one rank; a global batch is that times the number of
    ranks. Every index occurs once per epoch. The last global batch is as large as what is left and
    split as evenly as possible, so ranks may have one sample less than others in it, or none: use
    ``torch.distributed.algorithms.join.Join`` with plain DDP, or ``drop_last`` or ``pad``.

    The arguments of DistributedSampler come first, in its order. ``batch_size`` is required: it
    defines how many samples a training step counts. The others are as in
    :class:`~resile.train.data.samplers.base_sampler.SamplerOptions`.
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


class ElasticBatchSampler(BaseElasticSampler):
    """Yields lists of indices for ``DataLoader(dataset, batch_sampler=...)``.

    ``global_batch`` is the number of samples of a training step over all ranks, and stays the same
    when the world changes. A rank's share of it comes as one list, or as several of at most
    ``micro_batch``. Shares differ by at most one sample; :meth:`shares` returns all of them. A rank
    without a share in a global batch (the last one, or any when there are more ranks than samples)
    gets no list for it, never an empty one. The options are those of :class:`ElasticSampler`.
    """

    def __init__(
        self,
        dataset: Sized,
        *,
        global_batch: int,
        micro_batch: int | None = None,
        **options: Unpack[SamplerOptions],
    ) -> None:
        for what, value in (("global_batch", global_batch), ("micro_batch", micro_batch)):
            if value is not None and value < 1:
                raise DataMistake(f"{what}={value} must be at least 1")
        super().__init__(dataset, global_batch=lambda _world: global_batch, **options)
        self.micro_batch = micro_batch

    def __iter__(self) -> Iterator[list[int]]:
        """Yield this rank's lists of the rest of the epoch."""
        walk = self._walk()
        return (batch for share in walk for batch in self._pieces(share))

    def __len__(self) -> int:
        """Return the number of lists of the current iteration, from its start."""
        return sum(times * self._pieces_of(size) for times, size in self._share_sizes())

    def _pieces(self, share: Share) -> Iterator[list[int]]:
        size = len(share.indices)
        step = self.micro_batch or max(size, 1)
        for first in range(0, size, step):
            share.give(first + step)
            yield list(share.indices[first : first + step])

    def _pieces_of(self, size: int) -> int:
        return -(-size // (self.micro_batch or max(size, 1)))
