"""Sources of a rank's shards: the job's master or, without one, a static split.

A master leases shards as they are needed. Without one (plain torchrun, one process) every rank
walks the same epoch and takes a run of it: the same records count, each once, but no rank takes
over from a slow one, and a stream is divided by its partitions.

A thread holds the connection to the master, so that the master notices at once when this process
is gone, and so that the next shards can be requested while the last ones are trained. When the
master is unreachable it reconnects, logs that once, and repeats the request: a restarted master
gives the same answer. A forked child has no such thread and must open its own connection.

ShardError
├── MasterGone     the master did not come back within the timeout
├── LeaseLost      the lease, the epoch or the round is over; training on it does not count
└── ShardsRefused  the master refused, with a reason: ranks that disagree, or a wrong token
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import msgspec

from resile.group_name import group_from_environment
from resile.shards.client import ShardConnection, connect_for_shards, worker_access
from resile.shards.pool import Pool
from resile.shards.protocol import (
    MOST_SHARDS,
    Begin,
    Begun,
    DatasetSpec,
    EpochOver,
    FromWorker,
    Introduce,
    Lease,
    Leased,
    NotAccepted,
    NotYet,
    Shard,
    ToWorker,
    digest_of,
    why_invalid,
)
from resile.shards.spans import Spans
from resile.train.data.errors import DataError, DataMistake
from resile.train.data.sharded.plan import Plan, share
from resile.wire.client import Access
from resile.wire.errors import BadFrame, RefusedByPeer, WireError

__all__ = [
    "EpochRequest",
    "LeaseLost",
    "Leaser",
    "MasterGone",
    "Promise",
    "ShardChannel",
    "ShardError",
    "ShardsRefused",
    "StaticLeaser",
    "begin",
    "checked_spec",
    "leaser_for",
    "quotas",
    "refusal_of",
]


log = logging.getLogger("resile.data")

PATIENCE = 300.0
"""Timeout in seconds for an unreachable master: where it is supervised, it restarts within one."""

FIRST_RETRY, LAST_RETRY = 0.05, 1.0
"""Seconds between retries: find a restarted master quickly, without flooding the network."""

LONG_WAIT = 30.0
"""Seconds of waiting for an answer after which the reason is logged."""

FAREWELL = 2.0
"""Seconds to wait for the connection to close."""


class ShardError(DataError):
    """Base class of all errors of leased shards."""


class MasterGone(ShardError):
    """The master did not come back within the timeout."""


class LeaseLost(ShardError):
    """The lease, the epoch or the round is over: the shard is leased to another."""


class ShardsRefused(ShardError):
    """The master refused the request; a retry would not help."""


class ShardChannel:
    """A process's connection to the master. Thread-safe; requests are answered in order."""

    def __init__(self, access: Access, worker: Introduce, *, patience: float = PATIENCE) -> None:
        self._access = access
        self._worker = worker
        self._patience = patience
        self._connection: ShardConnection | None = None
        self._loop = asyncio.new_event_loop()
        self._turn = asyncio.Lock()
        self._thread = threading.Thread(target=self._run, name="resile-shards", daemon=True)
        self._thread.start()

    def ask(self, body: FromWorker) -> concurrent.futures.Future[ToWorker]:
        """Send a request; the result raises :class:`MasterGone` or :class:`ShardsRefused`."""
        return asyncio.run_coroutine_threadsafe(self._ask(body), self._loop)

    def close(self) -> None:
        """Close the connection; pending requests stay unanswered."""
        if self._loop.is_running():
            closing = asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop)
            try:
                closing.result(FAREWELL)
            except (concurrent.futures.TimeoutError, WireError, OSError):
                log.debug("the connection to the master was not closed cleanly")
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(FAREWELL)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _ask(self, body: FromWorker) -> ToWorker:
        log_at = time.monotonic() + LONG_WAIT
        while True:
            async with self._turn:
                answer = await self._asked(body)
            if not isinstance(answer, NotYet):
                return answer
            if time.monotonic() > log_at:
                log_at += LONG_WAIT
                log.warning("waiting for data: %s", answer.reason)
            await asyncio.sleep(answer.after)

    async def _asked(self, body: FromWorker) -> ToWorker:
        """Send a request until it is answered, reconnecting as often as needed."""
        deadline, pause = time.monotonic() + self._patience, FIRST_RETRY
        away = False
        while True:
            try:
                if self._connection is None:
                    self._connection = await connect_for_shards(self._access, self._worker)
                answer = await self._connection.ask(body)
            except WireError as error:
                await self._hang_up()
                if isinstance(error, BadFrame) or (
                    isinstance(error, RefusedByPeer) and error.final
                ):
                    raise ShardsRefused(str(error)) from None
                if time.monotonic() > deadline:
                    raise MasterGone(f"{error}; gave up after {self._patience:g} s") from None
                if not away:
                    away = True
                    log.warning("the master is unreachable, retrying: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LAST_RETRY)
                continue
            if away:
                log.warning("reconnected to the master")
            return answer

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def begin(line: ShardChannel, request: Begin) -> int:
    """Begin a dataset; returns its current epoch."""
    answer = line.ask(request).result()
    if isinstance(answer, Begun):
        return answer.epoch
    raise refusal_of(answer)


def refusal_of(answer: ToWorker) -> ShardError:
    """Return the error for an answer other than the expected one."""
    if isinstance(answer, NotAccepted):
        return (LeaseLost if answer.stale else ShardsRefused)(answer.reason)
    return ShardsRefused(f"unexpected answer from the master: {answer}")


Promise: TypeAlias = Callable[[], list[Shard]]
"""Requested shards; calling it waits for them. An empty list means that there are no more."""


class EpochRequest(msgspec.Struct, frozen=True, kw_only=True):
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

    def begin(self, opening: EpochRequest) -> None:
        """Prepare an epoch."""

    def ask(self, records: int) -> Promise:
        """Request at most ``records`` records; one promise at a time."""


class MasterLeaser:
    """Leases shards from the job's master."""

    def __init__(self, line: ShardChannel, *, rank: int) -> None:
        self._line = line
        self._rank = rank
        self._number = 0
        self._opening: EpochRequest | None = None

    def begin(self, opening: EpochRequest) -> None:
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

    def begin(self, opening: EpochRequest) -> None:
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
    if why := why_invalid(spec):
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


_lines: dict[tuple[int, int], ShardChannel] = {}
"""By process and rank: a forked child opens its own."""


def _line_of_process(access: Access, *, round: int, rank: int) -> ShardChannel:
    key = (os.getpid(), rank)
    if key not in _lines:
        group = group_from_environment(os.environ)
        worker = Introduce(client=f"rank-{rank}", round=round, rank=rank, group=group)
        _lines[key] = ShardChannel(access, worker)
    return _lines[key]
