"""Sources of a rank's shards: the job's master or, without one, a static split.

A master leases shards as they are needed. Without one (plain torchrun, one process) every rank
walks the same epoch and takes a run of it: the same records count, each once, but no rank takes
over from a slow one, and a stream is divided by its partitions.
"""

from __future__ import annotations

import concurrent.futures
import os
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from resile.groupname import group_in
from resile.train.data.errors import DataMistake
from resile.train.data.sharded_line import ShardLine, begin, refusal_of
from resile.train.data.sharded_plan import Plan, share
from resile.wire.client import Access
from resile.wire.shards import (
    MOST_SHARDS,
    Begin,
    DatasetSpec,
    EpochOver,
    Introduce,
    Lease,
    Leased,
    Shard,
    ToWorker,
    digest_of,
    why_unfit,
)
from resile.wire.shards_client import worker_access
from resile.wire.shards_pool import Pool
from resile.wire.shards_spans import Spans

__all__ = ["Leaser", "Opening", "Promise", "StaticLeaser", "checked_spec", "leaser_for", "quotas"]

Promise: TypeAlias = Callable[[], list[Shard]]
"""Requested shards; calling it waits for them. An empty list means that there are no more."""


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """The epoch that a rank is about to take from, and its state."""

    dataset: str
    spec: DatasetSpec
    epoch: int
    generation: int
    done: Sequence[Spans]
    before: int
    """Number of records that lower ranks take, for a static split."""

    quota: int | None
    """Number of records that this rank takes then; None: unlimited."""

    def begin_request(self, *, rank: int) -> Begin:
        """A rank's first message to the master: rank 0 sends what is done, others its digest."""
        return Begin(
            dataset=self.dataset,
            epoch=self.epoch,
            generation=self.generation,
            spec=self.spec,
            digest=digest_of(self.spec, epoch=self.epoch, done=self.done),
            done=tuple(spans.encode() for spans in self.done) if rank == 0 else None,
        )

    def lease_request(self, number: int, *, records: int) -> Lease:
        """A request for at most ``records`` records."""
        return Lease(
            dataset=self.dataset,
            epoch=self.epoch,
            generation=self.generation,
            number=number,
            records=records,
            shards=MOST_SHARDS,
        )


class Leaser(Protocol):
    """Provides shards, of one epoch at a time."""

    def begin(self, opening: Opening) -> None:
        """Prepare an epoch."""

    def ask(self, records: int) -> Promise:
        """Request at most ``records`` records; one promise at a time."""


class MasterLeaser:
    """Leases shards from the job's master."""

    def __init__(self, line: ShardLine, *, rank: int) -> None:
        self._line = line
        self._rank = rank
        self._number = 0
        self._opening: Opening | None = None

    def begin(self, opening: Opening) -> None:
        """Begin the epoch at the master; waits for rank 0, which reports for all what is done."""
        self._opening = opening
        begin(self._line, opening.begin_request(rank=self._rank))

    def ask(self, records: int) -> Promise:
        """Send the request now; the promise waits for the answer."""
        assert self._opening is not None
        self._number += 1
        answer = self._line.ask(self._opening.lease_request(self._number, records=records))
        return lambda: _shards_of(answer)


def _shards_of(answer: concurrent.futures.Future[ToWorker]) -> list[Shard]:
    match answer.result():
        case Leased(shards=shards):
            return list(shards)
        case EpochOver():
            return []
        case other:
            raise refusal_of(other)


class StaticLeaser:
    """Takes this rank's run of the epoch, without a master."""

    def __init__(self, *, rank: int, world: int) -> None:
        self._rank = rank
        self._world = world
        self._partitions: list[int] = []
        self._pool: Pool | None = None
        self._left: int | None = 0

    def begin(self, opening: Opening) -> None:
        """Skip the records that lower ranks take."""
        spec, done = opening.spec, opening.done
        if spec.partitions:
            self._partitions = list(range(self._rank, spec.partitions, self._world))
            if not self._partitions:
                raise DataMistake(
                    f"a stream of {spec.partitions} partitions cannot be shared by {self._world} "
                    "ranks without a master: run under 'resile run'"
                )
            done = [done[partition] for partition in self._partitions]
            spec = msgspec.structs.replace(spec, partitions=len(self._partitions))
        self._pool = Pool(spec, epoch=opening.epoch, done=done)
        self._left = opening.quota
        passed = 0
        while passed < opening.before and not self._pool.exhausted:
            over = self._pool.take(records=opening.before - passed, shards=MOST_SHARDS)
            passed += sum(len(shard) for shard in over)

    def ask(self, records: int) -> Promise:
        """Take the records immediately."""
        assert self._pool is not None
        wanted = records if self._left is None else min(records, self._left)
        taken: list[Shard] = []
        while wanted and not taken and not self._pool.exhausted:
            taken = self._pool.take(records=wanted, shards=MOST_SHARDS)
        if self._left is not None:
            self._left -= sum(len(shard) for shard in taken)
        if self._partitions:
            taken = [Shard(self._partitions[s.partition], s.start, s.stop) for s in taken]
        return lambda: taken


def checked_spec(spec: DatasetSpec) -> DatasetSpec:
    """Return ``spec``; raises :class:`DataMistake` for one that a master would refuse."""
    if why := why_unfit(spec):
        raise DataMistake(f"this dataset cannot be leased: {why}")
    return spec


def quotas(left: int | None, *, rank: int, world: int, plan: Plan | None) -> tuple[int, int | None]:
    """Return the number of records that lower ranks take, and that this one takes; ``plan`` None:
    ``Pace.APART``."""
    if left is None:
        return 0, None
    if plan is None:
        taken = [share(left, rank=one, world=world) for one in range(rank + 1)]
    else:
        taken = [plan.quota(one) or 0 for one in range(rank + 1)]
    return sum(taken[:-1]), taken[-1]


def leaser_for(*, rank: int, world: int) -> Leaser:
    """Return the master's leaser in a worker of a round that has one; else the static split."""
    access = worker_access(os.environ)
    number = os.environ.get("RESILE_ROUND")
    if access is None or number is None:
        return StaticLeaser(rank=rank, world=world)
    return MasterLeaser(_line_of_process(access, round=int(number), rank=rank), rank=rank)


_lines: dict[tuple[int, int], ShardLine] = {}
"""By process and rank: a forked child opens its own."""


def _line_of_process(access: Access, *, round: int, rank: int) -> ShardLine:
    key = (os.getpid(), rank)
    if key not in _lines:
        group = group_in(os.environ)
        worker = Introduce(client=f"rank-{rank}", round=round, rank=rank, group=group)
        _lines[key] = ShardLine(access, worker)
    return _lines[key]
