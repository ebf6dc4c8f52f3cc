"""A dataset whose records are leased to the ranks, shard by shard, as they need them.

The main process of each rank leases shards and cuts them into batches; a DataLoader's worker
processes only read. So batches leave the DataLoader in the order in which they were passed to it,
and the dataset knows which records a training step used without passing anything through the user's
collate function::

    dataset = ShardedDataset(reader, shard_size=1000, epochs=3)
    state = {"model": model, "optimizer": optimizer, "data": dataset, "step": 0}
    start = checkpointer.restore(state)
    loader = dataset.loader(batch_size=32, num_workers=2)
    for epoch in dataset.remaining_epochs():
        for batch in loader:
            ...
            checkpointer.step(step, state)          # calls dataset.advance()

Guarantees
    After any recovery at any number of ranks, each record of an epoch is trained exactly once,
    counted in the state that training resumed from: a record counts when the step that used it is
    in the snapshot or checkpoint. Records that were only leased or prefetched are leased again.

    ``Pace.TOGETHER`` (the default): all ranks take the same number of steps in an epoch, so no
    collective waits for a rank without data. Steps are full except for the last two, which are
    smaller; where a full step has less than two records for each rank the last may be larger. Every
    rank has at least one record in every step, except when an epoch has fewer records left than
    there are ranks: then some ranks get, in its only step, a *stand-in*, a record of another rank
    that does not count. :attr:`ShardedDataset.share` is 0 during that step: multiply the loss by 0,
    or use an ElasticTrainer. Since all ranks step together, all take equally many records,
    however fast they are.

    ``Pace.APART``: faster ranks take more records, shards get smaller towards the end, and ranks
    run out of records at different times. Use ``torch.distributed.algorithms.Join`` around the
    loop.

Without a master (plain torchrun, one process) the API and the guarantees are the same; the records
are then divided between ranks when the epoch begins, as in ``sharded_leasers.py``.

What can go wrong: without calls of ``advance`` (the Checkpointer makes them for datasets in its
state) the position never moves; a DataLoader over the dataset without its batches is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from torch.utils.data import DataLoader, Dataset

from resile.ledger import Ledger
from resile.shards.protocol import DatasetSpec, Pace
from resile.train.data.errors import DataMistake
from resile.train.data.rank_info import open_ledger, rank_and_world
from resile.train.data.sharded.batch_queue import BatchQueue
from resile.train.data.sharded.lease_sources import checked_spec
from resile.train.data.sharded.plan import BatchShape, ShardedBatches, shape_of
from resile.train.data.sharded.progress import TrainedRecords
from resile.train.data.sharded.sources import Index, open_source

__all__ = ["Pace", "ShardedBatches", "ShardedDataset"]


class ShardedDataset(Dataset):  # type: ignore[misc]  # torch is not followed by mypy
    """Records of ``source`` (see ``sharded_sources.py``), leased in shards of ``shard_size``.

    ``shard_size`` None: whole pieces (files). ``shuffle`` shuffles the shards in each epoch, and
    the records within each shard; ``"shards"`` keeps the records in a shard in order, which is
    faster for sources that are read in runs. ``offsets``: the first offset of each partition of a
    stream. ``name`` identifies the dataset within the job. ``length`` is for callables.
    """

    resile_per_rank = True

    def __init__(
        self,
        source: Any,
        *,
        shard_size: int | None = 1000,
        shuffle: bool | str = True,
        seed: int = 0,
        epochs: int = 1,
        name: str = "data",
        length: int | None = None,
        offsets: Sequence[int] | None = None,
        rank: int | None = None,
        num_replicas: int | None = None,
        ledger: str | Path | None = None,
    ) -> None:
        self._source = open_source(source, length=length)
        _check(shuffle, shard_size, epochs, self._source.partitions, offsets)
        self.rank, self.num_replicas = rank_and_world(rank, num_replicas)
        self.epochs = epochs
        spec = checked_spec(
            DatasetSpec(
                sizes=self._source.sizes,
                partitions=self._source.partitions,
                shard_size=shard_size or max((1, *self._source.sizes)),
                shuffle=bool(shuffle),
                seed=seed,
            )
        )
        self._trained = TrainedRecords(
            total=sum(spec.sizes),
            partitions=spec.partitions,
            rank=self.rank,
            ledger=self._opened_ledger(ledger, name),
            offsets=offsets or (),
        )
        self._handing = BatchQueue(
            self._trained,
            dataset=name,
            spec=spec,
            mixes=shuffle is True,
            rank=self.rank,
            world=self.num_replicas,
        )
        self._epochs_set = False

    # --- reading ----------------------------------------------------------------------------

    def loader(
        self,
        batch_size: int | None = None,
        *,
        global_batch: int | None = None,
        micro_batch: int | None = None,
        pace: Pace = Pace.TOGETHER,
        **options: Any,
    ) -> DataLoader:
        """Return a DataLoader over :meth:`batches`, with all of its other options."""
        if not options.get("in_order", True):
            raise DataMistake(
                "in_order=False is not supported: trained records are known by the order of batches"
            )
        batches = self.batches(
            batch_size, global_batch=global_batch, micro_batch=micro_batch, pace=pace
        )
        return DataLoader(self, batch_sampler=batches, **options)

    def batches(
        self,
        batch_size: int | None = None,
        *,
        global_batch: int | None = None,
        micro_batch: int | None = None,
        pace: Pace = Pace.TOGETHER,
    ) -> ShardedBatches:
        """Return this rank's batches as lists of indices, for a DataLoader's ``batch_sampler=``.

        ``batch_size``: records of this rank in a step; or ``global_batch``: those of all ranks.
        With ``micro_batch`` a step is cut into lists of at most that many, for an ElasticTrainer.
        """
        shape = shape_of(
            batch_size,
            global_batch=global_batch,
            micro_batch=micro_batch,
            pace=pace,
            world=self.num_replicas,
        )
        return ShardedBatches(self, shape)

    def __iter__(self) -> Iterator[Any]:
        """Yield single records; ``advance()`` counts one."""
        for indices in self.batches(1):
            yield from self.__getitems__(indices)

    def __getitem__(self, index: Index) -> Any:
        return self._source.fetch([index])[0]

    def __getitems__(self, indices: Sequence[Index]) -> list[Any]:
        """Return a whole batch: neighbouring records are read together."""
        return self._source.fetch(indices)

    def __len__(self) -> NoReturn:
        raise TypeError(
            "a ShardedDataset has no length; use dataset.loader(batch_size=...), or "
            "DataLoader(dataset, batch_sampler=dataset.batches(...))"
        )

    def __bool__(self) -> bool:
        return True

    # --- the position -----------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self._trained.epoch

    @property
    def left(self) -> int | None:
        """Records that were not done when the epoch was begun or restored; None for a stream."""
        return self._trained.left

    @property
    def share(self) -> int | None:
        """Number of records of the current batch that count; 0 for a stand-in, None if no batch."""
        return self._handing.current.counted if self._handing.current else None

    @property
    def any_index(self) -> Index:
        """The index of any readable record; of a stream, one of the current batch."""
        current = self._handing.current
        return current.indices[0] if current else 0

    @property
    def finished(self) -> bool:
        """Whether this rank has nothing left to train in this epoch."""
        return self._handing.finished

    def remaining_epochs(self) -> Iterator[int]:
        """Yield the epochs that are not complete, the current one first."""
        while True:
            if not self.finished:
                yield self.epoch
            if self.epoch + 1 >= self.epochs:
                return
            self._turn_to(self.epoch + 1)

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch; keeps the position if it is the restored one. A stream has only one."""
        self._epochs_set = True
        if epoch != self.epoch and not self._source.partitions:
            self._turn_to(epoch)

    def advance(self, samples: int | None = None) -> int:
        """Count a training step's batch as trained; returns its number of records.

        ``samples``: the number of records of this rank, where a step is not exactly one batch.
        """
        batch = self._handing.counted_off(samples)
        if batch is None:
            return 0
        self._trained.count(batch)
        return batch.counted

    def state_dict(self) -> dict[str, object]:
        """Return the records this rank has trained; different on each rank."""
        return self._trained.saved()

    def load_rank_states(self, states: Sequence[Mapping[str, object]]) -> None:
        """Continue from the states of all ranks of a saved step, whatever their number."""
        if states:
            self._trained.restore(states)
            self._handing.restored()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Like :meth:`load_rank_states`, for the state of a single process."""
        self.load_rank_states([state])

    # --- for the batches --------------------------------------------------------------------

    def hand_out(self, shape: BatchShape) -> Iterator[list[Index]]:
        """Yield the batches of one epoch that are not trained yet; see :class:`ShardedBatches`."""
        self._move_on()
        yield from self._handing.hand_out(shape)

    def steps_ahead(self, shape: BatchShape) -> Iterator[int]:
        """Yield the number of records of all ranks in each step that :meth:`hand_out` yields."""
        self._move_on()
        return self._handing.steps_ahead(shape)

    def _move_on(self) -> None:
        """Begin the next epoch, if this one is over and ``set_epoch`` is not used."""
        if self.finished and not self._epochs_set and self.epoch + 1 < self.epochs:
            self._turn_to(self.epoch + 1)

    def _turn_to(self, epoch: int) -> None:
        self._trained.set_endpoint(epoch)
        self._handing.forget()

    def _opened_ledger(self, folder: str | Path | None, name: str) -> Ledger | None:
        """A stream has none: the ledger proves that an epoch is complete."""
        if self._source.partitions:
            return None
        return open_ledger(
            folder,
            name,
            length=sum(self._source.sizes),
            drops=False,
            rank=self.rank,
            world=self.num_replicas,
        )

    def __getstate__(self) -> dict[str, Any]:
        """For a DataLoader's worker process, which only reads."""
        return {"_source": self._source}


def _check(
    shuffle: bool | str,
    shard_size: int | None,
    epochs: int,
    partitions: int,
    offsets: Sequence[int] | None,
) -> None:
    if shuffle not in (True, False, "shards"):
        raise DataMistake(f"shuffle={shuffle!r} must be True, False or 'shards'")
    if shard_size is not None and shard_size < 1:
        raise DataMistake(f"shard_size={shard_size} must be at least 1, or None for whole files")
    if shard_size is None and partitions:
        raise DataMistake("shard_size=None is for files: a partition of a stream has no end")
    if epochs < 1 or (partitions and epochs != 1):
        raise DataMistake(f"epochs={epochs} must be at least 1, and exactly 1 for a stream")
    if offsets is not None and len(offsets) != partitions:
        raise DataMistake(
            f"offsets= has {len(offsets)} entries, but the source has {partitions} partitions"
        )
