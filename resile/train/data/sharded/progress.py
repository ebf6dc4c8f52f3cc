"""A rank's progress in leased data: the trained records, and their saved position.

Two sets are kept apart: *restored* is what all ranks had done when this state was restored, the
same on all of them, and saved by rank 0 only; *own* is what this rank trained since. The union
over all ranks of a saved step is what is done at that step, whatever the number of ranks, and
whatever was leased and not trained.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from resile.decoding import convert
from resile.ledger import Ledger
from resile.shards.spans import Spans, runs
from resile.train.data.errors import PositionMisfit
from resile.train.data.sharded.epoch import Batch

__all__ = [
    "ShardPosition",
    "TrainedRecords",
    "united",
]


FORMAT = 1


class ShardPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's part of the position."""

    format: int = FORMAT
    epoch: int = 0
    total: int = 0
    """Records of an epoch; 0 for a stream."""

    partitions: int = 0
    done: list[list[int]] = []
    """Spans of this epoch per partition, as :meth:`Spans.encode` writes them."""

    steps: int = 0
    """Total number of training steps on this data."""

    trained_by: str | None = None
    """The round of the last step, in the ledger's form."""

    def saved(self) -> dict[str, object]:
        """Return it as a plain dictionary for the state."""
        return msgspec.structs.asdict(self)


def united(
    states: Sequence[Mapping[str, object]], *, total: int, partitions: int
) -> tuple[ShardPosition, list[Spans]]:
    """Return the latest position and the spans done by all ranks. Raises
    :class:`PositionMisfit`."""
    positions = [_read(state) for state in states]
    for position in positions:
        _check(position, total=total, partitions=partitions)
    latest = max(positions, key=lambda position: (position.epoch, position.steps))
    done = [Spans() for _ in range(max(1, partitions))]
    # A rank that is still in an older epoch had nothing left to train in it.
    for position in positions:
        if position.epoch == latest.epoch:
            for spans, numbers in zip(done, position.done, strict=True):
                spans.unite(Spans.decode(numbers))
    return latest, done


def _read(state: Mapping[str, object]) -> ShardPosition:
    try:
        position = convert(dict(state), ShardPosition)
        for numbers in position.done:
            Spans.decode(numbers)
    except (TypeError, ValueError) as error:
        raise PositionMisfit(f"not a valid position in leased data: {error}") from None
    if position.format != FORMAT:
        raise PositionMisfit(
            f"the position was saved in format {position.format}, but this version of Resile "
            f"reads format {FORMAT}"
        )
    return position


def _check(position: ShardPosition, *, total: int, partitions: int) -> None:
    if position.partitions != partitions:
        raise PositionMisfit(
            f"the position belongs to data with {position.partitions} partitions, but this dataset "
            f"has {partitions}"
        )
    if position.total != total and any(position.done):
        raise PositionMisfit(
            f"epoch {position.epoch} was begun with {position.total} records and cannot continue "
            f"with {total}"
        )


class TrainedRecords:
    """The position of one rank; ``offsets``: the first offset of each partition of a stream."""

    def __init__(
        self,
        *,
        total: int,
        partitions: int,
        rank: int,
        ledger: Ledger | None,
        offsets: Iterable[int] = (),
    ) -> None:
        self.epoch = 0
        self._total = total
        self._partitions = partitions
        self._rank = rank
        self._ledger = ledger
        self._steps = 0
        self._trained_by: str | None = None
        self.restored = [Spans([(0, offset)]) for offset in offsets] or self._nothing()
        self._own = self._nothing()

    @property
    def left(self) -> int | None:
        """Records that were not done when the epoch was begun or restored; None for a stream."""
        return None if self._partitions else self._total - len(self.restored[0])

    def count(self, batch: Batch) -> None:
        """Count a batch as trained."""
        indices = batch.indices[: batch.counted]
        for partition in range(len(self._own)):
            for start, stop in runs(sorted(_offsets(indices, partition))):
                self._own[partition].add(start, stop)
        self._steps += 1
        if self._ledger is not None:
            numbers = _offsets(indices, 0)
            self._ledger.record(self._steps, self.epoch, numbers, total=batch.total)
            self._trained_by = self._ledger.round

    def set_endpoint(self, epoch: int) -> None:
        """Begin an epoch with nothing trained."""
        self.epoch = epoch
        self.restored, self._own = self._nothing(), self._nothing()

    def saved(self) -> dict[str, object]:
        """Return this rank's part of the position."""
        done = [spans.copy() for spans in self._own]
        if self._rank == 0:
            for spans, restored in zip(done, self.restored, strict=True):
                spans.unite(restored)
        position = ShardPosition(
            epoch=self.epoch,
            total=self._total,
            partitions=self._partitions,
            done=[list(spans.encode()) for spans in done],
            steps=self._steps,
            trained_by=self._trained_by,
        )
        return position.saved()

    def restore(self, states: Sequence[Mapping[str, object]]) -> None:
        """Continue from all ranks' parts."""
        latest, done = united(states, total=self._total, partitions=self._partitions)
        self.epoch, self._steps = latest.epoch, latest.steps
        self._trained_by = latest.trained_by
        self.restored, self._own = done, self._nothing()
        if self._ledger is not None:
            self._ledger.resumed(self._steps, of=self._trained_by)

    def _nothing(self) -> list[Spans]:
        return [Spans() for _ in range(max(1, self._partitions))]


def _offsets(indices: Iterable[int | tuple[int, int]], partition: int) -> list[int]:
    """The records of one partition; plain numbers belong to partition 0."""
    pairs = [(0, index) if isinstance(index, int) else index for index in indices]
    return [offset for number, offset in pairs if number == partition]
