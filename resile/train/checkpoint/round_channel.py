"""A channel for small records between the workers of a round, outside of their collectives.

Records go through the round's store, which every worker can reach before and after it has a process
group. Values are msgpack, never pickle. Keys carry the round and the number of the channel, so that
records of an older round, or of another checkpointer, are never read.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import msgspec
import torch.distributed as dist

from resile.decoding import decode_msgpack
from resile.group_name import MAIN_GROUP, group_from_environment

__all__ = ["RoundChannel", "RankInfo", "connect_early", "open_channel"]

PATIENCE = timedelta(minutes=10)
"""A worker may be late by as long as its imports and data take; a dead one ends the round."""

T = TypeVar("T")

_instances = itertools.count()


@dataclass(frozen=True)
class RankInfo:
    """This worker's ranks and world sizes in its round."""

    rank: int
    world: int
    local_rank: int
    local_world: int
    group_rank: int
    nodes: int
    round: int
    run: str = ""
    """The same for all rounds of one numbering; empty where rounds are not numbered."""

    job: str = ""
    group: str = MAIN_GROUP
    """The job's group that it trains in."""

    @classmethod
    def from_environment(cls) -> RankInfo:
        """Read the launcher's variables; a single worker where there are none."""

        def number(name: str, default: int) -> int:
            return int(os.environ.get(name) or default)

        return cls(
            rank=number("RANK", 0),
            world=number("WORLD_SIZE", 1),
            local_rank=number("LOCAL_RANK", 0),
            local_world=number("LOCAL_WORLD_SIZE", 1),
            group_rank=number("GROUP_RANK", 0),
            nodes=number("GROUP_WORLD_SIZE", 1),
            round=number("RESILE_ROUND", number("TORCHELASTIC_RESTART_COUNT", 0)),
            run=os.environ.get("RESILE_RUN", ""),
            job=os.environ.get("TORCHELASTIC_RUN_ID", ""),
            group=group_from_environment(os.environ),
        )

    @property
    def leads_node(self) -> bool:
        """Whether this worker acts for its node."""
        return self.local_rank == 0


class RoundChannel:
    """Records that the workers of one round exchange."""

    def __init__(self, place: RankInfo, store: dist.Store | None) -> None:
        """``store`` may be None only for a single worker."""
        self.place = place
        self._store = store
        self._alone: dict[str, bytes] = {}

    def put(self, key: str, record: object) -> None:
        """Write a record; workers that wait for it continue."""
        data = msgspec.msgpack.encode(record)
        if self._store is None:
            self._alone[key] = data
        else:
            self._store.set(key, data)

    def get(self, key: str, kind: type[T]) -> T:
        """Return a record; waits until a worker has written it."""
        data = self._alone[key] if self._store is None else self._store.get(key)
        return decode_msgpack(data, kind)

    def has(self, key: str) -> bool:
        """Return whether a record exists; never waits."""
        if self._store is None:
            return key in self._alone
        return bool(self._store.check([key]))

    def gather(self, topic: str, mine: T, kind: type[T]) -> list[T] | None:
        """Collect one record of every rank: on rank 0 all in rank order, elsewhere None."""
        if self.place.rank != 0:
            self.put(f"{topic}/{self.place.rank}", mine)
            return None
        others = range(1, self.place.world)
        return [mine, *(self.get(f"{topic}/{rank}", kind) for rank in others)]

    def decide(self, topic: str, decision: Callable[[], T], kind: type[T]) -> T:
        """Return the same decision on all ranks; ``decision`` is called on rank 0 only."""
        if self.place.rank != 0:
            return self.get(topic, kind)
        decided = decision()
        self.put(topic, decided)
        return decided


def open_channel(place: RankInfo, store: dist.Store | None = None) -> RoundChannel:
    """Open a channel to the other workers of this round, over ``store`` if already connected."""
    if place.world == 1:
        return RoundChannel(place, None)
    prefix = f"resile/checkpoint/{place.round}/{next(_instances)}"
    store = store or connect_early(place) or _launchers_store()
    return RoundChannel(place, dist.PrefixStore(prefix, store))


def connect_early(place: RankInfo) -> dist.Store | None:
    """Connect ahead of time for :func:`open_channel`, if there is a process group, so that a
    restore does not have to. The process group's own connection is not used: a wait on a
    connection blocks all its other users."""
    if place.world == 1 or not dist.is_initialized():
        return None
    return dist.distributed_c10d._get_default_store().clone()


def _launchers_store() -> dist.Store:
    """Connect to the launcher's store, where there is no process group yet."""
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if host is None or port is None or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        raise RuntimeError(
            "Checkpointer.restore needs the other workers: call init_process_group before it, or "
            "start the script with 'resile run' or torchrun"
        )
    return dist.TCPStore(host, int(port), is_master=False, timeout=PATIENCE, wait_for_workers=False)
