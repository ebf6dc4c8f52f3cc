"""Sets of record positions as sorted, disjoint, half-open spans.

The done records of a dataset are sent, stored and united in this form: a few numbers for millions
of records, because trained records are mostly contiguous. A set is changed by ``add`` alone. Its
encoding is a flat list of numbers, gap and length in turn, so that large positions cost a few bytes
each and any JSON or msgpack can carry it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["Spans", "runs"]


class Spans:
    """A set of non-negative integers."""

    __slots__ = ("_count", "_starts", "_stops")

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._count = 0
        for start, stop in spans:
            self.add(start, stop)

    @classmethod
    def decode(cls, numbers: Sequence[int]) -> Spans:
        """Decode the list of :meth:`encode`; raises ValueError for anything else."""
        if len(numbers) % 2:
            raise ValueError("spans come as pairs of a gap and a length")
        decoded, position = cls(), 0
        for gap, length in zip(numbers[::2], numbers[1::2], strict=True):
            if gap < 0 or length < 1:
                raise ValueError(f"invalid span: gap {gap}, length {length}")
            start = position + gap
            position = start + length
            decoded.add(start, position)
        return decoded

    def encode(self) -> tuple[int, ...]:
        """Encode as gap, length, gap, length … from position 0 on."""
        numbers: list[int] = []
        position = 0
        for start, stop in self:
            numbers += (start - position, stop - start)
            position = stop
        return tuple(numbers)

    def add(self, start: int, stop: int) -> None:
        """Add [start, stop) to the set."""
        if start >= stop:
            return
        first = bisect_left(self._stops, start)
        last = bisect_right(self._starts, stop)
        if first < last:
            start = min(start, self._starts[first])
            stop = max(stop, self._stops[last - 1])
        replaced = sum(
            b - a for a, b in zip(self._starts[first:last], self._stops[first:last], strict=True)
        )
        self._starts[first:last] = [start]
        self._stops[first:last] = [stop]
        self._count += stop - start - replaced

    def unite(self, other: Spans) -> None:
        """Add all of ``other`` to the set."""
        for start, stop in other:
            self.add(start, stop)

    def missing(self, start: int, stop: int) -> list[tuple[int, int]]:
        """Return the spans of [start, stop) that are not in the set."""
        gaps: list[tuple[int, int]] = []
        index = bisect_right(self._stops, start)
        while start < stop:
            if index == len(self._starts) or self._starts[index] >= stop:
                gaps.append((start, stop))
                break
            if start < self._starts[index]:
                gaps.append((start, self._starts[index]))
            start = self._stops[index]
            index += 1
        return gaps

    @property
    def end(self) -> int:
        """One more than the largest member; 0 for none."""
        return self._stops[-1] if self._stops else 0

    def copy(self) -> Spans:
        """Return an independent copy."""
        return Spans(self)

    def __len__(self) -> int:
        return self._count

    def __bool__(self) -> bool:
        return self._count > 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self._starts, self._stops, strict=True)

    def __contains__(self, position: object) -> bool:
        if not isinstance(position, int):
            return False
        index = bisect_right(self._starts, position) - 1
        return index >= 0 and position < self._stops[index]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spans):
            return NotImplemented
        return self._starts == other._starts and self._stops == other._stops

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Spans({list(self)})"


def runs(positions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield ``positions`` in their order as [start, stop) of consecutive ones."""
    start = stop = -1
    for position in positions:
        if position == stop:
            stop += 1
            continue
        if stop >= 0:
            yield start, stop
        start, stop = position, position + 1
    if stop >= 0:
        yield start, stop
