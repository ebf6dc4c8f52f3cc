"""A dataset whose records are leased, shard by shard, to whichever rank needs them next.

The main process of each rank leases shards and cuts them into batches; a DataLoader's worker
processes only read. So the batches that come out of the DataLoader, in order, are the batches that
were handed to it, in order, and the dataset knows which records a training step used without
anything being carried through the user's collate function::

    dataset = ShardedDataset(reader, shard_size=1000, epochs=3)
    state = {"model": model, "optimizer": optimizer, "data": dataset, "step": 0}
    start = checkpointer.restore(state)
    loader = dataset.loader(batch_size=32, num_workers=2)
    for epoch in dataset.remaining_epochs():
        for batch in loader:
            ...
            checkpointer.step(step, state)          # calls dataset.advance()

What is guaranteed
    After any recovery at any number of ranks, each record of an epoch is trained exactly once,
    counted in the state that training resumed from: a record counts when the step that used it is
    in the snapshot or checkpoint. What was only leased or prefetched is leased again.

    ``Pace.TOGETHER`` (the default): all ranks take the same number of steps in an epoch, so no
    collective waits for a rank without data. Steps are full except for the last two, which are
    smaller; where a full step has less than two records for each rank the last may be larger. Every
    rank has at least one record in every step, except when an epoch has fewer records left than
    there are ranks: then some ranks get, in its only step, a *stand-in*, a record of another rank's
    that does not count. :attr:`ShardedDataset.share` is 0 during that step: multiply the loss by 0,
    or let an ElasticTrainer do it. Since all ranks step together, all take equally many records,
    however fast they are.

    ``Pace.APART``: whoever asks first takes more, shards get smaller towards the end, and ranks run
    out of records at different times. Use ``torch.distributed.algorithms.Join`` around the loop.

Without a master (plain torchrun, one process) the API and the guarantees are the same; the split
between ranks is then made when the epoch begins, as in ``sharded_leasers.py``.

What can go wrong: nobody calls ``advance`` (the Checkpointer does, for whatever is in its state),
and the position never moves; a DataLoader is given the dataset without its batches, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from torch.utils.data import DataLoader, Dataset

from resile.ledger import Ledger
from resile.train.data.errors import DataMistake
from resile.train.data.ledger import open_ledger
from resile.train.data.place import rank_and_world
from resile.train.data.sharded_batches import BatchShape, ShardedBatches, shape_of
from resile.train.data.sharded_handing import Handing
from resile.train.data.sharded_leasers import checked_spec
from resile.train.data.sharded_sources import Index, open_source
from resile.train.data.sharded_trained import Trained
from resile.wire.shards import DatasetSpec, Pace

__all__ = ["Pace", "ShardedBatches", "ShardedDataset"]


class ShardedDataset(Dataset):  # type: ignore[misc]  # torch is not followed by mypy
    """Records of ``source`` (see ``sharded_sources.py``), leased in shards of ``shard_size``.

    ``shard_size`` None: whole pieces (files). ``shuffle`` mixes the order of shards anew in each
    epoch, and the records within each shard; ``"shards"`` leaves the records in a shard in order,
    which is faster for sources that are read in runs. ``offsets``: where each partition of a stream
    begins. ``name`` tells the datasets of one job apart. ``length`` is for callables.
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
        self._trained = Trained(
            total=sum(spec.sizes),
            partitions=spec.partitions,
            rank=self.rank,
            ledger=self._opened_ledger(ledger, name),
            offsets=offsets or (),
        )
        self._handing = Handing(
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
        """A DataLoader over :meth:`batches`, with all of its other options."""
        if not options.get("in_order", True):
            raise DataMistake("in_order=False: what is trained is known by the order of batches")
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
        """This rank's batches as lists of indices: ``batch_sampler=`` of a DataLoader.

        ``batch_size``: records of this rank in a step; or ``global_batch``: those of all ranks.
        With ``micro_batch`` a step is cut into lists of at most so many, for an ElasticTrainer.
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
        """One record after the other; ``advance()`` counts one."""
        for indices in self.batches(1):
            yield from self.__getitems__(indices)

    def __getitem__(self, index: Index) -> Any:
        return self._source.fetch([index])[0]

    def __getitems__(self, indices: Sequence[Index]) -> list[Any]:
        """A whole batch at once: neighbours are read together."""
        return self._source.fetch(indices)

    def __len__(self) -> NoReturn:
        raise TypeError(
            "a ShardedDataset has no length of its own; use dataset.loader(batch_size=...), or "
            "DataLoader(dataset, batch_sampler=dataset.batches(...))"
        )

    def __bool__(self) -> bool:
        return True

    # --- the position -----------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        """The epoch that is being trained."""
        return self._trained.epoch

    @property
    def left(self) -> int | None:
        """Records that were not done when the epoch was begun or restored; None for a stream."""
        return self._trained.left

    @property
    def share(self) -> int | None:
        """Records of the batch being trained that count; 0 for a stand-in, None for no batch."""
        return self._handing.current.counted if self._handing.current else None

    @property
    def any_index(self) -> Index:
        """A record that can be read, whichever; of a stream, one of the batch being trained."""
        current = self._handing.current
        return current.indices[0] if current else 0

    @property
    def finished(self) -> bool:
        """Whether this rank has nothing left to train in this epoch."""
        return self._handing.finished

    def remaining_epochs(self) -> Iterator[int]:
        """The epochs that are not trained to their end, the current one first."""
        while True:
            if not self.finished:
                yield self.epoch
            if self.epoch + 1 >= self.epochs:
                return
            self._turn_to(self.epoch + 1)

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch; of the epoch that was restored, keep the position. A stream has one."""
        self._epochs_set = True
        if epoch != self.epoch and not self._source.partitions:
            self._turn_to(epoch)

    def advance(self, samples: int | None = None) -> int:
        """A training step is done: its batch counts from now on. How many records that are.

        ``samples``: so many records of this rank, where a step is not exactly one batch.
        """
        batch = self._handing.counted_off(samples)
        if batch is None:
            return 0
        self._trained.count(batch)
        return batch.counted

    def state_dict(self) -> dict[str, object]:
        """What this rank has trained; different on all ranks."""
        return self._trained.saved()

    def load_rank_states(self, states: Sequence[Mapping[str, object]]) -> None:
        """Go on from the states of all ranks of a saved step, whatever their number was."""
        if states:
            self._trained.restore(states)
            self._handing.restored()

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """As :meth:`load_rank_states`, where one process trained alone."""
        self.load_rank_states([state])

    # --- for the batches --------------------------------------------------------------------

    def hand_out(self, shape: BatchShape) -> Iterator[list[Index]]:
        """The batches of one epoch that are not trained yet; see :class:`ShardedBatches`."""
        self._move_on()
        yield from self._handing.hand_out(shape)

    def steps_ahead(self, shape: BatchShape) -> Iterator[int]:
        """Records of all ranks in each step that :meth:`hand_out` is going to hand out."""
        self._move_on()
        return self._handing.steps_ahead(shape)

    def _move_on(self) -> None:
        """Begin the next epoch, if this one is over and nobody says which is to be trained."""
        if self.finished and not self._epochs_set and self.epoch + 1 < self.epochs:
            self._turn_to(self.epoch + 1)

    def _turn_to(self, epoch: int) -> None:
        self._trained.turn_to(epoch)
        self._handing.forget()

    def _opened_ledger(self, folder: str | Path | None, name: str) -> Ledger | None:
        """A stream has none: the ledger proves that an epoch is whole."""
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
        raise DataMistake(f"shuffle={shuffle!r}: True, False or 'shards' is wanted")
    if shard_size is not None and shard_size < 1:
        raise DataMistake(f"shard_size={shard_size}: at least 1 is wanted, or None for files")
    if shard_size is None and partitions:
        raise DataMistake("shard_size=None: a partition of a stream has no end to lease it up to")
    if epochs < 1 or (partitions and epochs != 1):
        raise DataMistake(f"epochs={epochs}: at least 1 is wanted, and 1 for a stream")
    if offsets is not None and len(offsets) != partitions:
        raise DataMistake(
            f"offsets= names {len(offsets)} partitions, and the source has {partitions}"
        )
