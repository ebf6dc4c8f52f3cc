"""From step records and a fault's time to seconds without training. Pure: no clock, no files.

A *record* is one completed step of one rank. After a fault, training has recovered when every rank
of the new world has completed a step; the last of them counts. Only *fresh* records count: written
after the fault by a process that had written none before it. A surviving process may still report a
step whose all-reduce finished before its peer died, and that step proves nothing.

A launcher that rebuilds the process group inside surviving processes would need another criterion
for fresh records than the process id; none of those measured here does.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec


class Record(msgspec.Struct, frozen=True):
    """A completed step of one rank, as written by the probe."""

    time: float
    step: int
    node: int
    rank: int
    world: int
    pid: int
    restart: int


class Continuity(NamedTuple):
    """Steps lost and gaps between steps during a fault that should not affect training."""

    steps_lost: int
    longest_gap: float
    usual_gap: float


_decoder = msgspec.json.Decoder(Record)


def parse(chunk: bytes) -> tuple[list[Record], bytes]:
    """Records in a piece of the event file, and the incomplete line at its end."""
    *lines, rest = chunk.split(b"\n")
    return [_decoder.decode(line) for line in lines if line], rest


def all_ranks_stepped(records: Iterable[Record], *, world: int, steps: int = 1) -> float | None:
    """The time at which the last rank of a world of this size completed its Nth step, or None."""
    counts: dict[int, int] = {}
    reached: dict[int, float] = {}
    for record in records:
        if record.world != world:
            continue
        counts[record.rank] = counts.get(record.rank, 0) + 1
        if counts[record.rank] == steps:
            reached[record.rank] = record.time
    return max(reached.values()) if len(reached) == world else None


def fresh(records: Sequence[Record], *, since: float) -> list[Record]:
    """Records written after ``since`` by processes that had written none before."""
    old = {record.pid for record in records if record.time <= since}
    return [record for record in records if record.time > since and record.pid not in old]


def recovery(records: Sequence[Record], *, fault: float, world: int) -> float | None:
    """Seconds from a fault to the last rank's first step in a new world of this size."""
    back = all_ranks_stepped(fresh(records, since=fault), world=world)
    return None if back is None else back - fault


def pause(records: Sequence[Record], *, old_world: int, new_world: int) -> float | None:
    """Seconds between the last step in the old world and all ranks' first step in the new one."""
    last = max((record.time for record in records if record.world == old_world), default=None)
    first = all_ranks_stepped(records, world=new_world)
    return None if last is None or first is None else first - last


def continuity(records: Sequence[Record], *, fault: float, until: float) -> Continuity | None:
    """Steps lost and the longest gap of any rank between a fault and a later moment.

    The usual gap is the longest one in an equally long time before the fault, so that the two can
    be compared. None when some rank has no step on one of the two sides.
    """
    before = [record for record in records if 2 * fault - until <= record.time <= fault]
    after = [record for record in records if fault < record.time <= until]
    ranks = {record.rank for record in before}
    if not ranks or ranks != {record.rank for record in after}:
        return None
    last = {record.rank: record for record in before}
    lost = max(_steps_redone(last[rank], of_rank(after, rank)) for rank in ranks)
    gap = max(_longest_gap([last[rank], *of_rank(after, rank)], end=until) for rank in ranks)
    usual = max(_longest_gap(of_rank(before, rank), end=fault) for rank in ranks)
    return Continuity(lost, gap, usual)


def of_rank(records: Iterable[Record], rank: int) -> list[Record]:
    """The records of one rank, in their order."""
    return [record for record in records if record.rank == rank]


def newest(records: Iterable[Record]) -> dict[int, Record]:
    """The latest record of each rank of the current world, by rank."""
    latest: dict[int, Record] = {}
    for record in records:
        latest[record.rank] = record
    world = max(latest.values(), key=lambda record: record.time).world if latest else 0
    return {rank: record for rank, record in latest.items() if rank < world}


def _steps_redone(last: Record, after: Sequence[Record]) -> int:
    """The number of steps that the count fell back; a restarted probe counts from zero."""
    return max(0, last.step + 1 - min(record.step for record in after))


def _longest_gap(records: Sequence[Record], *, end: float) -> float:
    times = [record.time for record in records] + [end]
    return max(later - earlier for earlier, later in pairwise(times))
