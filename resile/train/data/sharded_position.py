"""How far a rank has come in leased data: what is saved of it, and how the ranks' parts unite.

Each rank saves the spans of records that it trained itself; rank 0 also those that were restored
when it began. The union over all ranks of a saved step is what is done at that step, whatever the
number of ranks was, and whatever had been leased and not trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from resile.decoding import convert
from resile.train.data.errors import PositionMisfit
from resile.wire.shards_spans import Spans

__all__ = ["ShardPosition", "united"]

FORMAT = 1


class ShardPosition(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's part."""

    format: int = FORMAT
    epoch: int = 0
    total: int = 0
    """Records of an epoch; 0 for a stream."""

    partitions: int = 0
    done: list[list[int]] = []
    """Of this epoch, a partition each, as :meth:`Spans.encode` writes it."""

    steps: int = 0
    """Training steps ever taken on this data."""

    trained_by: str | None = None
    """The round that took the last of them, as the ledger calls it."""

    def saved(self) -> dict[str, object]:
        """As it is kept with the state: names, numbers and nothing else."""
        return msgspec.structs.asdict(self)


def united(
    states: Sequence[Mapping[str, object]], *, total: int, partitions: int
) -> tuple[ShardPosition, list[Spans]]:
    """Where all ranks together were, and what they had done. Raises :class:`PositionMisfit`."""
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
        raise PositionMisfit(f"this is not a position in leased data: {error}") from None
    if position.format != FORMAT:
        raise PositionMisfit(
            f"the position was saved in format {position.format}, and this version of Resile "
            f"reads format {FORMAT}"
        )
    return position


def _check(position: ShardPosition, *, total: int, partitions: int) -> None:
    if position.partitions != partitions:
        raise PositionMisfit(
            f"the position belongs to data of {position.partitions} partitions, and this has "
            f"{partitions}"
        )
    if position.total != total and any(position.done):
        raise PositionMisfit(
            f"epoch {position.epoch} was begun with {position.total} records and cannot go on with "
            f"{total}"
        )
