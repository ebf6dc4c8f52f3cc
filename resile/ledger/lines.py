"""The lines of a ledger file, as readable JSON.

A file belongs to one worker process and one stream of data. It has two kinds of lines: *begin* says
that this worker trains in a round from here on, resumed from a step or from nothing; *trained*
lists the indices that it trained in a step. The worker appends whole lines, each with one write, so
a kill can truncate only the last line.

Indices may be in any order. They are written as ranges where that is shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from resile.decoding import DecodeError, JsonDecoder
from resile.group_name import MAIN_GROUP

__all__ = ["ENDING", "BeginLine", "Line", "TrainedLine", "decode_line", "encode_line", "trained"]

ENDING = ".ledger"


class BeginLine(msgspec.Struct, frozen=True, kw_only=True, tag="begin", omit_defaults=True):
    """The start of a worker's training in a round."""

    stream: str
    round: str
    """The name of the round; the same for all its workers, and unique."""

    rank: int
    world: int
    time: float
    """Unix time; used only to order rounds."""

    step: int | None = None
    """The step that was restored; None if nothing was."""

    of: str | None = None
    """The round that trained this step; None if unknown: then the previous round."""

    length: int | None = None
    """The number of indices in an epoch; None if unknown."""

    drops: bool = False
    """Whether an epoch ends with its last complete global batch."""

    group: str = MAIN_GROUP
    """The group that the worker belongs to; groups are checked separately."""


class TrainedLine(msgspec.Struct, frozen=True, kw_only=True, tag="trained", omit_defaults=True):
    """The indices that this worker trained in one step; none if it had no share in it."""

    step: int
    epoch: int
    total: int | None = None
    """The number of indices that all workers trained in this step and epoch, if known."""

    ids: list[int] = []
    ranges: list[tuple[int, int]] = []
    """Half-open ranges: start included, stop excluded."""

    def __len__(self) -> int:
        return len(self.ids) + sum(stop - start for start, stop in self.ranges)

    def indices(self) -> Iterator[int]:
        """All indices, one by one."""
        yield from self.ids
        for start, stop in self.ranges:
            yield from range(start, stop)


Line = BeginLine | TrainedLine

_decoder = JsonDecoder[Line](Line)


def trained(step: int, epoch: int, *, indices: Sequence[int], total: int | None) -> TrainedLine:
    """Build the line for a step, in its shorter form."""
    ranges = list(_runs(indices))
    if 2 * len(ranges) < len(indices):
        return TrainedLine(step=step, epoch=epoch, total=total, ranges=ranges)
    return TrainedLine(step=step, epoch=epoch, total=total, ids=list(indices))


def encode_line(line: Line) -> bytes:
    """Encode a line, with its newline."""
    return msgspec.json.encode(line) + b"\n"


def decode_line(data: bytes) -> Line:
    """Decode a line; raises :class:`~resile.decoding.DecodeError`."""
    line = _decoder.decode(data)
    if isinstance(line, TrainedLine) and any(start >= stop for start, stop in line.ranges):
        raise DecodeError("a range ends before it begins")
    return line


def _runs(indices: Iterable[int]) -> Iterator[tuple[int, int]]:
    start = stop = 0
    for index in indices:
        if index != stop or start == stop:
            if start != stop:
                yield start, stop
            start = index
        stop = index + 1
    if start != stop:
        yield start, stop
