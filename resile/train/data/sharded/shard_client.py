"""Leased shards for workers that train independently, without common steps.

Where ranks do not synchronize there is no common snapshot of what is trained, so the master keeps
track: a shard that a client reports is done for good, and the shards it holds when it dies are
leased to others. A shard that was trained and not yet reported is then trained again; exactly once
needs training and report to be atomic, which only a :class:`ShardedDataset` in a saved state
provides.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from resile.group_name import group_from_environment
from resile.shards.client import worker_access
from resile.shards.protocol import (
    Begin,
    DatasetSpec,
    EpochOver,
    Introduce,
    Lease,
    Leased,
    Shard,
    digest_of,
)
from resile.shards.spans import Spans
from resile.train.data.errors import DataMistake
from resile.train.data.sharded.lease_sources import ShardChannel, begin, checked_spec, refusal_of
from resile.wire.client import Access

__all__ = ["LeasedShard", "ShardClient"]


@dataclass(frozen=True)
class LeasedShard:
    """A leased range of records, [start, stop) of a partition in an epoch."""

    epoch: int
    partition: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def shard(self) -> Shard:
        """The shard in the protocol's form."""
        return Shard(self.partition, self.start, self.stop)


class ShardClient:
    """Leases shards from the job's master, one after the other.

    ``for shard in client:`` iterates over all epochs: the previous shard is reported as done when
    the next is requested, in one message. Or by hand: :meth:`lease` and, when it is trained,
    :meth:`done`, which counts immediately and for good (when it returns the master has stored it).
    The shards of a client that dies are returned at once; those of a client that hangs when their
    lease (``patience`` seconds) expires, and its late :meth:`done` raises :class:`LeaseLost`.

    All clients of a ``name`` must describe the same dataset: ``total`` records, or pieces of
    ``sizes`` (files) that no shard crosses, or ``partitions`` of an endless stream.
    """

    def __init__(
        self,
        name: str,
        *,
        total: int | None = None,
        sizes: tuple[int, ...] = (),
        partitions: int = 0,
        shard_size: int = 1000,
        shuffle: bool = False,
        seed: int = 0,
        epochs: int = 1,
        patience: float = 600.0,
        access: Access | None = None,
    ) -> None:
        given = [total is not None, bool(sizes), bool(partitions)]
        if sum(given) != 1:
            raise DataMistake("set exactly one of total=, sizes= and partitions=")
        found = access or worker_access(os.environ)
        if found is None:
            raise DataMistake(
                "there is no master to lease shards from: run under 'resile run', or set "
                "$RESILE_MASTER to its HOST:PORT"
            )
        self._access = found
        self._name = name
        self._spec = checked_spec(
            DatasetSpec(
                sizes=sizes if total is None else (total,),
                partitions=partitions,
                shard_size=shard_size,
                shuffle=shuffle,
                seed=seed,
                epochs=epochs,
                patience=patience,
            )
        )
        self._owner = 0
        self._line: ShardChannel | None = None
        self._number = 0
        self._epoch = 0

    def __iter__(self) -> Iterator[LeasedShard]:
        shard = self.lease()
        while shard is not None:
            yield shard
            shard = self.lease(done=shard)

    def lease(
        self, *, records: int | None = None, done: LeasedShard | None = None
    ) -> LeasedShard | None:
        """Return the next shard, of at most ``records`` records; None when all epochs are over.

        ``done`` is reported in the same message. Waits while others hold the last shards, which
        may be returned. None also when this client itself holds the last ones.
        """
        answer = self._request(records=records or self._spec.shard_size, done=done)
        if isinstance(answer, EpochOver):
            return None
        (shard,) = answer.shards
        return LeasedShard(answer.epoch, shard.partition, shard.start, shard.stop)

    def done(self, shard: LeasedShard) -> None:
        """Report a shard as trained; returns when the master has stored it."""
        self._request(records=0, done=shard)

    def give_back(self, shard: LeasedShard) -> None:
        """Return a shard untrained, so that another client can lease it."""
        self._request(records=0, returned=shard)

    def close(self) -> None:
        """Disconnect; shards still held are leased to others."""
        if self._line is not None and self._owner == os.getpid():
            self._line.close()
        self._line = None

    def _request(
        self,
        *,
        records: int,
        done: LeasedShard | None = None,
        returned: LeasedShard | None = None,
    ) -> Leased | EpochOver:
        line = self._connected()
        spoken_of = done or returned
        self._number += 1
        request = Lease(
            dataset=self._name,
            epoch=spoken_of.epoch if spoken_of else self._epoch,
            number=self._number,
            records=records,
            shards=1,
            done=(done.shard,) if done else (),
            returned=(returned.shard,) if returned else (),
        )
        answer = line.ask(request).result()
        if not isinstance(answer, (Leased, EpochOver)):
            raise refusal_of(answer)
        return answer

    def _connected(self) -> ShardChannel:
        """This process's connection; a forked child opens its own."""
        if self._line is None or self._owner != os.getpid():
            name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
            group = group_from_environment(os.environ)
            self._line = ShardChannel(self._access, Introduce(client=name, group=group))
            self._owner, self._number = os.getpid(), 0
            digest = digest_of(self._spec, epoch=0, done=[Spans()])
            request = Begin(dataset=self._name, spec=self._spec, digest=digest, done=())
            self._epoch = begin(self._line, request)
        return self._line
