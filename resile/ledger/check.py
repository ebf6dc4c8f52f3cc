"""The check of a ledger: each index of each epoch counts exactly once. Pure.

It checks that no step that counts is missing, that every such step has all workers' shares, and
that every epoch has each of its indices exactly once. The last epoch may be in progress: what it
has not trained yet is not a fault. So may the last step of a running job: it does not count until
all workers have recorded it. A ledger cannot show the last steps of a job if no worker recorded
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from resile.ledger.lineage import Entry, Kept, Place, lineage, lost_steps
from resile.ledger.lines import Trained
from resile.ledger.reader import Stream
from resile.ledger.verdict import EpochVerdict, Extent, Found, StreamVerdict, Verdict

__all__ = ["LISTED", "Verdict", "check"]

LISTED = 1000
"""Maximum faults of a kind that are listed one by one; all are counted."""


def check(streams: list[Stream], *, epochs: int | None = None) -> Verdict:
    """Check a ledger. ``epochs``: the number that must be complete in each stream."""
    return Verdict(streams=[_check_stream(stream, epochs) for stream in streams])


def _check_stream(stream: Stream, wanted: int | None) -> StreamVerdict:
    kept, broken = lineage(stream)
    steps: dict[int, list[Entry]] = {}
    for one in kept:
        for entry in one.entries():
            steps.setdefault(entry.line.step, []).append(entry)
    if steps and _is_under_way(steps[max(steps)]):
        del steps[max(steps)]
    by_epoch: dict[int, list[Entry]] = {}
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


def _disagreements(kept: list[Kept]) -> Iterator[str]:
    """Faults: workers of a round that resumed from different steps."""
    for one in kept:
        begins = {rank: turn.begin for rank, turn in one.round.turns.items()}
        if len({(begin.step, begin.of) for begin in begins.values()}) > 1:
            told = ", ".join(f"rank {rank}: step {begins[rank].step}" for rank in sorted(begins))
            yield f"the ranks of round {one.round.name} resumed from different steps ({told})"


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


def _is_under_way(entries: list[Entry]) -> bool:
    """Whether some share of a step is not recorded yet."""
    found = sum(len(entry.line) for entry in entries)
    return any(entry.line.total is not None and entry.line.total > found for entry in entries)


def _shortfalls(step: int, entries: list[Entry]) -> Iterator[str]:
    """Faults: shares of a step that are missing, or recorded twice."""
    for epoch in sorted({entry.line.epoch for entry in entries}):
        shares = [entry for entry in entries if entry.line.epoch == epoch]
        totals = {entry.line.total for entry in shares}
        found = sum(len(entry.line) for entry in shares)
        if totals in ({None}, {found}):
            continue
        told = " or ".join(sorted(map(str, totals)))
        ranks = ", ".join(map(str, sorted(entry.place.rank for entry in shares)))
        yield (
            f"step {step} trained {told} samples of epoch {epoch}, "
            f"but {found} are recorded (by ranks {ranks})"
        )


# --- epochs -----------------------------------------------------------------------------------


def _check_epoch(epoch: int, entries: list[Entry], *, last: bool) -> EpochVerdict:
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


def _reach(entries: list[Entry]) -> int:
    """The extent to which data of unknown length was trained."""
    ends = [max(entry.line.ids, default=-1) + 1 for entry in entries]
    ends += [stop for entry in entries for _, stop in entry.line.ranges]
    return max(ends, default=0)


def _mark(marks: bytearray, lines: Iterable[Trained]) -> tuple[set[int], set[int]]:
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


def _places(indices: set[int], entries: list[Entry]) -> list[Found]:
    """The places where each of the first of these indices was trained."""
    found: dict[int, list[Place]] = {index: [] for index in sorted(indices)[:LISTED]}
    for entry in entries if found else ():
        for index in entry.line.indices():
            if index in found:
                found[index].append(entry.place)
    return [Found(index, sorted(places)) for index, places in found.items()]
