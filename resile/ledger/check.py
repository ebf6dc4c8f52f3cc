"""The check of a ledger: each index of each epoch counts exactly once. Pure.

It checks that no step that counts is missing, that every such step has all workers' shares, and
that every epoch has each of its indices exactly once. The last epoch may be in progress: what it
has not trained yet is not a fault. So may the last step of a running job: it does not count until
all workers have recorded it. A ledger cannot show the last steps of a job if no worker recorded
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

import msgspec

from resile.group_name import MAIN_GROUP
from resile.ledger.lineage import LineageEntry, LineageRound, TrainedAt, lineage, lost_steps
from resile.ledger.lines import TrainedLine
from resile.ledger.reader import LedgerStream

__all__ = [
    "EpochVerdict",
    "Extent",
    "IndexPlaces",
    "LISTED",
    "LedgerVerdict",
    "StreamVerdict",
    "check",
]


class Extent(str, Enum):
    """The extent to which an epoch was trained."""

    COMPLETE = "complete"
    OPEN = "open"
    """The last epoch, incomplete; training may continue, or was meant to end there."""

    SHORT = "short"
    """Something is missing although a later epoch was started."""


class IndexPlaces(msgspec.Struct, frozen=True):
    """An index, and the places where it was trained."""

    index: int
    places: list[TrainedAt]


class EpochVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one epoch of a stream."""

    epoch: int
    length: int
    """The number of indices; for data of unknown length, the extent that was trained."""

    trained: int
    """The number of distinct indices that count."""

    extent: Extent
    missing: int = 0
    gaps: list[tuple[int, int]] = []
    """The first missing indices, as ranges."""

    dropped: int = 0
    """Indices left out on purpose: the last incomplete global batch."""

    repeated: int = 0
    """Indices that count more than once."""

    repeats: list[IndexPlaces] = []
    outside: int = 0
    """Trained indices that are not in the epoch."""

    strays: list[IndexPlaces] = []

    @property
    def sound(self) -> bool:
        """Whether each index counts exactly once, as far as the epoch was trained."""
        return not (self.repeated or self.outside or self.extent is Extent.SHORT)


class StreamVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one stream of a group."""

    name: str
    epochs: list[EpochVerdict]
    rounds: int
    steps: int
    """The number of steps that count."""

    lost: int
    """The number of steps that were trained and lost in a crash."""

    faults: list[str]
    """Faults of the record itself, such as steps that were not recorded."""

    group: str = MAIN_GROUP

    @property
    def sound(self) -> bool:
        """Whether there are no faults."""
        return not self.faults and all(epoch.sound for epoch in self.epochs)


class LedgerVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result for a whole ledger."""

    streams: list[StreamVerdict]

    @property
    def sound(self) -> bool:
        """Whether each index of each epoch counts exactly once, as far as epochs were trained."""
        return all(stream.sound for stream in self.streams)


LISTED = 1000
"""Maximum faults of a kind that are listed one by one; all are counted."""


def check(streams: list[LedgerStream], *, epochs: int | None = None) -> LedgerVerdict:
    """Check a ledger. ``epochs``: the number that must be complete in each stream."""
    return LedgerVerdict(streams=[_check_stream(stream, epochs) for stream in streams])


def _check_stream(stream: LedgerStream, wanted: int | None) -> StreamVerdict:
    kept, broken = lineage(stream)
    steps: dict[int, list[LineageEntry]] = {}
    for one in kept:
        for entry in one.entries():
            steps.setdefault(entry.line.step, []).append(entry)
    if steps and _is_under_way(steps[max(steps)]):
        del steps[max(steps)]
    by_epoch: dict[int, list[LineageEntry]] = {}
    for entries in steps.values():
        for entry in entries:
            by_epoch.setdefault(entry.line.epoch, []).append(entry)
    faults = [broken] if broken else []
    faults += _disagreements(kept)
    faults += _holes(sorted(steps), kept[0].round.step)
    for step in sorted(steps):
        faults += _shortfalls(step, steps[step])
    last = max(by_epoch, default=0)
    epochs = [
        _check_epoch(epoch, by_epoch[epoch], last=epoch == last) for epoch in sorted(by_epoch)
    ]
    complete = sum(one.extent is Extent.COMPLETE for one in epochs)
    if wanted is not None and complete < wanted:
        faults.append(f"{complete} epochs are complete, {wanted} should be")
    return StreamVerdict(
        name=stream.name,
        epochs=epochs,
        rounds=len(stream.rounds),
        steps=len(steps),
        lost=lost_steps(stream, kept),
        faults=faults,
        group=stream.group,
    )


# --- the record itself ------------------------------------------------------------------------


def _disagreements(kept: list[LineageRound]) -> Iterator[str]:
    """Faults: workers of a round that resumed from different steps."""
    for one in kept:
        begins = {rank: turn.begin for rank, turn in one.round.turns.items()}
        if len({(begin.step, begin.of) for begin in begins.values()}) > 1:
            listed = ", ".join(f"rank {rank}: step {begins[rank].step}" for rank in sorted(begins))
            yield f"the ranks of round {one.round.name} resumed from different steps ({listed})"


def _holes(steps: list[int], resumed: int | None) -> Iterator[str]:
    """Faults: steps that no worker recorded although later ones are there."""
    if not steps:
        return
    expected = min(steps[0], 1) if resumed is None else resumed + 1
    for step in steps:
        if step == expected + 1:
            yield f"step {expected} was not recorded by any worker"
        elif step > expected:
            yield f"steps {expected} to {step - 1} were not recorded by any worker"
        expected = step + 1


def _is_under_way(entries: list[LineageEntry]) -> bool:
    """Whether some share of a step is not recorded yet."""
    found = sum(len(entry.line) for entry in entries)
    return any(entry.line.total is not None and entry.line.total > found for entry in entries)


def _shortfalls(step: int, entries: list[LineageEntry]) -> Iterator[str]:
    """Faults: shares of a step that are missing, or recorded twice."""
    for epoch in sorted({entry.line.epoch for entry in entries}):
        shares = [entry for entry in entries if entry.line.epoch == epoch]
        totals = {entry.line.total for entry in shares}
        found = sum(len(entry.line) for entry in shares)
        if totals in ({None}, {found}):
            continue
        listed = " or ".join(sorted(map(str, totals)))
        ranks = ", ".join(map(str, sorted(entry.place.rank for entry in shares)))
        yield (
            f"step {step} trained {listed} samples of epoch {epoch}, "
            f"but {found} are recorded (by ranks {ranks})"
        )


# --- epochs -----------------------------------------------------------------------------------


def _check_epoch(epoch: int, entries: list[LineageEntry], *, last: bool) -> EpochVerdict:
    latest = max(entries, key=lambda entry: entry.place)
    length = latest.begin.length
    marks = bytearray(_reach(entries) if length is None else length)
    again, stray = _mark(marks, (entry.line for entry in entries))
    unmarked = marks.count(0)
    left_out = latest.begin.drops and unmarked < (latest.line.total or 0)
    extent = Extent.COMPLETE
    if unmarked and not left_out:
        extent = Extent.OPEN if last else Extent.SHORT
    return EpochVerdict(
        epoch=epoch,
        length=len(marks),
        trained=len(marks) - unmarked,
        extent=extent,
        dropped=unmarked if left_out else 0,
        missing=0 if left_out else unmarked,
        gaps=[] if left_out else _gaps(marks),
        repeated=len(again),
        repeats=_places(again, entries),
        outside=len(stray),
        strays=_places(stray, entries),
    )


def _reach(entries: list[LineageEntry]) -> int:
    """The extent to which data of unknown length was trained."""
    ends = [max(entry.line.ids, default=-1) + 1 for entry in entries]
    ends += [stop for entry in entries for _, stop in entry.line.ranges]
    return max(ends, default=0)


def _mark(marks: bytearray, lines: Iterable[TrainedLine]) -> tuple[set[int], set[int]]:
    """Mark the trained indices; returns those marked before, and those out of range."""
    again: set[int] = set()
    stray: set[int] = set()
    size = len(marks)
    for line in lines:
        for start, stop in line.ranges:
            if start >= 0 and stop <= size and marks.count(1, start, stop) == 0:
                marks[start:stop] = b"\x01" * (stop - start)
            else:
                _mark_each(range(start, stop), marks, again=again, stray=stray)
        _mark_each(line.ids, marks, again=again, stray=stray)
    return again, stray


def _mark_each(
    indices: Iterable[int], marks: bytearray, *, again: set[int], stray: set[int]
) -> None:
    size = len(marks)
    for index in indices:
        if not 0 <= index < size:
            stray.add(index)
        elif marks[index]:
            again.add(index)
        else:
            marks[index] = 1


def _gaps(marks: bytearray) -> list[tuple[int, int]]:
    gaps: list[tuple[int, int]] = []
    start = marks.find(0)
    while start >= 0 and len(gaps) < LISTED:
        stop = marks.find(1, start)
        stop = len(marks) if stop < 0 else stop
        gaps.append((start, stop))
        start = marks.find(0, stop)
    return gaps


def _places(indices: set[int], entries: list[LineageEntry]) -> list[IndexPlaces]:
    """The places where each of the first of these indices was trained."""
    found: dict[int, list[TrainedAt]] = {index: [] for index in sorted(indices)[:LISTED]}
    for entry in entries if found else ():
        for index in entry.line.indices():
            if index in found:
                found[index].append(entry.place)
    return [IndexPlaces(index, sorted(places)) for index, places in found.items()]
