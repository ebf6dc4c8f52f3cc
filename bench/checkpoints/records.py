"""From the script's step records to figures. Pure: no clock, no files.

A save stalls training for as long as its slowest rank, because the others wait for it in the next
collective. All times were measured by the ranks themselves.
"""

import statistics
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from bench.timeline import Record

ENOUGH_STEPS = 10
"""The fewest steps, with and without writing, for which a comparison is meaningful."""


class SavingRecord(Record, frozen=True):
    """A completed step, and the duration of the save after it."""

    took: float
    """Seconds of the step alone."""
    writing: bool
    """Whether storage was still being written when the step ended."""
    due: bool
    save: float
    start: int
    """The first step of this process; more than 0 if it restored a state."""
    restore: float | None = None
    copy: float | None = None
    """Seconds a plain copy of the same state took; with `restore`, in one record of a process."""


class Stalls(NamedTuple):
    """Seconds that training stalled for saves."""

    first: float
    later: Sequence[float]


class Restore(NamedTuple):
    """Seconds of a restore and of a plain copy, each in its slowest rank."""

    seconds: float
    copy: float


_decoder = msgspec.json.Decoder(SavingRecord)


def parse_saving(content: bytes) -> list[SavingRecord]:
    """All complete lines of an event file."""
    *lines, _ = content.split(b"\n")
    return [_decoder.decode(line) for line in lines if line]


def stalls(records: Iterable[SavingRecord]) -> Stalls | None:
    """The stall of the first save, including earlier work of the saver, and of each later save."""
    by_step: dict[int, list[SavingRecord]] = {}
    for record in records:
        by_step.setdefault(record.step, []).append(record)
    whole = [step for _, step in sorted(by_step.items()) if len(step) == step[0].world]
    due = [place for place, step in enumerate(whole) if step[0].due]
    if not due:
        return None
    slowest = [max(record.save for record in step) for step in whole]
    first = sum(slowest[: due[0] + 1])
    return Stalls(first, [slowest[place] for place in due[1:]])


def slowdown(records: Sequence[SavingRecord]) -> float | None:
    """The increase of the step time while storage is written, in percent.

    The first half of the steps before the first save is left out as warm-up, and so are steps in
    which the writing ended, because they belong to neither side.
    """
    writing: list[float] = []
    idle: list[float] = []
    for rank in {record.rank for record in records}:
        mine = [record for record in records if record.rank == rank]
        first = next((place for place, record in enumerate(mine) if record.due), len(mine))
        for before, record in pairwise(mine[first // 2 :]):
            if record.writing:
                writing.append(record.took)
            elif not before.writing and not before.due:
                idle.append(record.took)
    if min(len(writing), len(idle)) < ENOUGH_STEPS:
        return None
    return 100 * (statistics.mean(writing) / statistics.mean(idle) - 1)


def restored(
    records: Iterable[SavingRecord], *, since: float, ranks: int, node: int | None = None
) -> Restore | None:
    """The restore after ``since``, once this many ranks (of one node) have reported theirs."""
    told: dict[int, Restore] = {}
    for record in records:
        elsewhere = node is not None and record.node != node
        if record.time <= since or elsewhere or record.restore is None or record.copy is None:
            continue
        told[record.rank] = Restore(record.restore, record.copy)
    if len(told) < ranks:
        return None
    return Restore(
        max(one.seconds for one in told.values()), max(one.copy for one in told.values())
    )
