"""ElasticBatchSampler: the same samples in the k-th global batch, whatever the world size."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import TYPE_CHECKING

from resile.train.data.elastic import ElasticWalk, WalkOptions
from resile.train.data.errors import DataMistake
from resile.train.data.handed_out import Share

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["ElasticBatchSampler"]


class ElasticBatchSampler(ElasticWalk):
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
        **options: Unpack[WalkOptions],
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
