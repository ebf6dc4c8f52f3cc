"""The queue of the current epoch's batches: leased, cut, yielded, and counted.

A DataLoader takes batches long before they are trained. Batches stay in the queue until the step
that trained them is counted, in order; a new iteration yields them again first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain

import msgspec

from resile.shards.protocol import DatasetSpec
from resile.train.data.errors import DataMistake
from resile.train.data.sharded.epoch import Batch, EpochBatches, first_records
from resile.train.data.sharded.lease_sources import EpochRequest, Leaser, leaser_for, quotas
from resile.train.data.sharded.plan import BatchShape
from resile.train.data.sharded.progress import TrainedRecords
from resile.train.data.sharded.sources import Index

__all__ = ["BatchQueue"]


class BatchQueue:
    """A rank's batch queue. ``mixes``: whether the records within a shard are shuffled too."""

    def __init__(
        self,
        trained: TrainedRecords,
        *,
        dataset: str,
        spec: DatasetSpec,
        mixes: bool,
        rank: int,
        world: int,
    ) -> None:
        self._trained = trained
        self._dataset = dataset
        self._spec = spec
        self._mixes = mixes
        self._rank, self._world = rank, world
        self._generation = 0
        self._leaser: Leaser | None = None
        self._take: EpochBatches | None = None
        self._shape: BatchShape | None = None
        self._handed: deque[Batch] = deque()

    @property
    def finished(self) -> bool:
        """Whether this rank has nothing left to train in this epoch."""
        if self._take is not None:
            return self._take.over and not self._handed
        return self._trained.left == 0

    @property
    def current(self) -> Batch | None:
        """The batch that is trained next."""
        return self._handed[0] if self._handed else None

    def hand_out(self, shape: BatchShape) -> Iterator[list[Index]]:
        """Yield the batches that are not trained yet, as lists of indices."""
        take = self._take or self._begin(shape)
        if shape != self._shape:
            raise DataMistake(
                f"epoch {self._trained.epoch} was begun with another batch size or pace and must "
                f"continue with it ({self._shape})"
            )
        for batch in list(self._handed):
            yield from shape.lists(batch.indices)
        for batch in take.batches():
            self._handed.append(batch)
            yield from shape.lists(batch.indices)
            if self._take is not take:
                return

    def steps_ahead(self, shape: BatchShape) -> Iterator[int]:
        """Yield the records of all ranks in each step that :meth:`hand_out` yields."""
        if self._take is not None:
            return chain([_total(batch) for batch in self._handed], self._take.sizes_ahead())
        plan = shape.plan(self._trained.left, world=self._world)
        return plan.sizes() if plan else iter(())

    def counted_off(self, samples: int | None) -> Batch | None:
        """Remove the batch that a step trained, or its first ``samples`` records; None if empty.

        It is not yielded again.
        """
        if not self._handed:
            return None
        if samples is None:
            return self._handed.popleft()
        return first_records(self._handed, samples)

    def forget(self) -> None:
        """Clear the queue for another epoch."""
        self._take = None
        self._handed.clear()

    def restored(self) -> None:
        """Clear the queue after a restore, which invalidates all leases."""
        self.forget()
        self._generation += 1

    def _begin(self, shape: BatchShape) -> EpochBatches:
        rank, world, left = self._rank, self._world, self._trained.left
        epoch = self._trained.epoch
        if self._leaser is None:
            self._leaser = leaser_for(rank=rank, world=world)
        plan = shape.plan(left, world=world)
        before, quota = quotas(left, rank=rank, world=world, plan=plan)
        opening = EpochRequest(
            dataset=self._dataset,
            spec=msgspec.structs.replace(self._spec, pace=shape.pace),
            epoch=epoch,
            generation=self._generation,
            done=self._trained.restored,
            before=before,
            quota=quota,
        )
        self._leaser.begin(opening)
        self._shape = shape
        self._take = EpochBatches(
            self._leaser,
            rank=rank,
            batch_size=shape.own(rank=rank, world=world),
            ahead=self._spec.shard_size,
            plan=plan,
            mix=f"{self._spec.seed}:{epoch}" if self._mixes else None,
            stream=bool(self._spec.partitions),
        )
        return self._take


def _total(batch: Batch) -> int:
    """The number of records of all ranks in this batch's step."""
    if batch.total is None:
        raise DataMistake("advance(samples=...) counted only a part of a step")
    return batch.total
