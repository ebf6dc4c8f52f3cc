"""Shards for workers that train each for itself, without steps in common.

Where ranks do not synchronise there is no snapshot of all of them that says what is trained, so
here the master remembers: what a client reports is done for good, and what it holds when it dies
goes to another. A shard that was trained and not yet reported is then trained again; for exactly
once, training and report have to be one, which only a :class:`ShardedDataset` in a saved state is.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from resile.groupname import group_in
from resile.train.data.errors import DataMistake
from resile.train.data.sharded_leasers import checked_spec
from resile.train.data.sharded_line import ShardLine, begin, refusal_of
from resile.wire.client import Access
from resile.wire.shards import (
    Begin,
    DatasetSpec,
    EpochOver,
    Introduce,
    Lease,
    Leased,
    Shard,
    digest_of,
)
from resile.wire.shards_client import worker_access
from resile.wire.shards_spans import Spans

__all__ = ["LeasedShard", "ShardClient"]


@dataclass(frozen=True)
class LeasedShard:
    """Records [start, stop) of a partition in an epoch, for whoever holds it."""

    epoch: int
    partition: int
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def shard(self) -> Shard:
        """As it is called on the wire."""
        return Shard(self.partition, self.start, self.stop)


class ShardClient:
    """Leases from the job's master, one shard after the other.

    ``for shard in client:`` goes through all epochs: the shard before counts as done when the next
    is asked for, in one message. Or by hand: :meth:`lease` and, when it is trained, :meth:`done`,
    which counts at once and for good (when it returns the master has it in its store). A client
    that dies gives its shards back at once; one that hangs when their time (``patience``) is over,
    and its late :meth:`done` raises :class:`LeaseLost`.

    All clients of a ``name`` have to describe the same dataset: ``total`` records, or pieces of
    ``sizes`` (files) that no shard crosses, or ``partitions`` of a stream without an end.
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
            raise DataMistake("give exactly one of total=, sizes= and partitions=")
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
        self._line: ShardLine | None = None
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
        """The next shard, of at most so many records; None when all epochs are over.

        ``done`` is reported in the same message. Waits while others hold the last shards, which
        may come back. None also when the last ones are held by this client itself.
        """
        answer = self._request(records=records or self._spec.shard_size, done=done)
        if isinstance(answer, EpochOver):
            return None
        (shard,) = answer.shards
        return LeasedShard(answer.epoch, shard.partition, shard.start, shard.stop)

    def done(self, shard: LeasedShard) -> None:
        """It is trained; returns when the master has kept that."""
        self._request(records=0, done=shard)

    def give_back(self, shard: LeasedShard) -> None:
        """It is not trained: somebody else may."""
        self._request(records=0, returned=shard)

    def close(self) -> None:
        """Leave; whatever is still held goes to others."""
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

    def _connected(self) -> ShardLine:
        """This process's line; a forked child makes its own."""
        if self._line is None or self._owner != os.getpid():
            name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
            group = group_in(os.environ)
            self._line = ShardLine(self._access, Introduce(client=name, group=group))
            self._owner, self._number = os.getpid(), 0
            digest = digest_of(self._spec, epoch=0, done=[Spans()])
            request = Begin(dataset=self._name, spec=self._spec, digest=digest, done=())
            self._epoch = begin(self._line, request)
        return self._line
