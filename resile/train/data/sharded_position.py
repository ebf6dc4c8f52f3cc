"""A rank's saved position in leased data, and the union of all ranks' positions.

Each rank saves the spans of records that it trained itself; rank 0 also those that were restored
when it began. The union over all ranks of a saved step is what is done at that step, whatever the
number of ranks, and whatever was leased and not trained.
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
    """One rank's part of the position."""

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
