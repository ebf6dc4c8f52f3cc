"""The records of leased data that one rank has trained, on top of the restored ones.

Two sets are kept apart: *restored* is what all ranks had done when this state was restored, the
same on all of them, and saved by rank 0 only; *own* is what this rank trained since.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from resile.ledger import Ledger
from resile.train.data.sharded_epoch import Batch
from resile.train.data.sharded_position import ShardPosition, united
from resile.wire.shards_spans import Spans, runs

__all__ = ["Trained"]


class Trained:
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

    def turn_to(self, epoch: int) -> None:
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
