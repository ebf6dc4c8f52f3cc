"""ElasticSampler: a drop-in for DistributedSampler; its epoch survives any change of the world."""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import TYPE_CHECKING

from resile.train.data.elastic import ElasticWalk, WalkOptions
from resile.train.data.errors import DataMistake

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["ElasticSampler"]


class ElasticSampler(ElasticWalk):
    """Indices for ``DataLoader(dataset, batch_size=batch_size, sampler=...)``.

    ``batch_size`` is the DataLoader's, one rank's; a global batch is as many times that as there
    are ranks. Every index comes once an epoch. The last global batch is as large as what is left
    and split as evenly as can be, so ranks may have one sample less than others in it, or none:
    use ``torch.distributed.algorithms.join.Join`` with plain DDP, or ``drop_last`` or ``pad``.

    The options are ``num_replicas``, ``rank``, ``shuffle=True``, ``seed=0``, ``drop_last=False``,
    ``pad=False``, and for the ledger ``name`` and ``ledger``: see :class:`WalkOptions`.
    """

    def __init__(self, dataset: Sized, *, batch_size: int, **options: Unpack[WalkOptions]) -> None:
        if batch_size < 1:
            raise DataMistake(f"batch_size={batch_size} has to be at least 1")
        super().__init__(dataset, global_batch=lambda world: world * batch_size, **options)
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[int]:
        """What is left of the epoch, as far as it is this rank's."""
        walk = self._walk()
        return (index for share in walk for index in share)

    def __len__(self) -> int:
        """How many indices the current iteration has in all, from where it began."""
        return sum(times * size for times, size in self._share_sizes())
