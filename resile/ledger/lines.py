"""The lines of a ledger's file, as JSON that a person can read.

A file belongs to one worker process and one stream of data. It has two kinds of lines: *begin* says
that this worker trains from here on in a round, resumed from a step or from nothing; *trained*
says which indices it trained in a step. The worker appends whole lines, each with one write, so a
kill can cut off the last line and no other.

What a step trained are indices in any order. They are written as ranges where that is shorter.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from resile.decoding import DecodeError, JsonDecoder
from resile.groupname import MAIN_GROUP

__all__ = ["ENDING", "Begin", "Line", "Trained", "decode_line", "encode_line", "trained"]

ENDING = ".ledger"


class Begin(msgspec.Struct, frozen=True, kw_only=True, tag="begin", omit_defaults=True):
    """A worker trains from here on."""

    stream: str
    round: str
    """The same for all workers that train together, and for no others."""

    rank: int
    world: int
    time: float
    """Unix time; only tells which round came later."""

    step: int | None = None
    """The last step of what was restored; None if nothing was."""

    of: str | None = None
    """The round that trained this step; None if that is not known: then the round before."""

    length: int | None = None
    """How many indices an epoch has; None if nobody can know."""

    drops: bool = False
    """Whether an epoch ends with its last whole global batch."""

    group: str = MAIN_GROUP
    """Those of the job that train together; what another group trains counts for itself."""


class Trained(msgspec.Struct, frozen=True, kw_only=True, tag="trained", omit_defaults=True):
    """What this worker trained in one step; nothing, if it had no share in it."""

    step: int
    epoch: int
    total: int | None = None
    """How many indices all workers together trained in this step and epoch, where known."""

    ids: list[int] = []
    ranges: list[tuple[int, int]] = []
    """Each from its first index up to, and without, its second."""

    def __len__(self) -> int:
        return len(self.ids) + sum(stop - start for start, stop in self.ranges)

    def indices(self) -> Iterator[int]:
        """All of them, one by one."""
        yield from self.ids
        for start, stop in self.ranges:
            yield from range(start, stop)


Line = Begin | Trained

_decoder = JsonDecoder[Line](Line)


def trained(step: int, epoch: int, *, indices: Sequence[int], total: int | None) -> Trained:
    """The line for a step, in its shorter form."""
    ranges = list(_runs(indices))
    if 2 * len(ranges) < len(indices):
        return Trained(step=step, epoch=epoch, total=total, ranges=ranges)
    return Trained(step=step, epoch=epoch, total=total, ids=list(indices))


def encode_line(line: Line) -> bytes:
    """As it is written."""
    return msgspec.json.encode(line) + b"\n"


def decode_line(data: bytes) -> Line:
    """Read one; raises :class:`~resile.decoding.DecodeError`."""
    line = _decoder.decode(data)
    if isinstance(line, Trained) and any(start >= stop for start, stop in line.ranges):
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
