"""What the workers of a round agree on outside of their collectives: a few small records.

They meet in the round's store, which every worker can reach before and after it has a process
group. Values are msgpack, never pickle. Keys carry the round and the number of the agreement, so
that nothing said in an older round, or by another checkpointer, is taken for an answer.
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
from resile.groupname import MAIN_GROUP, group_in

__all__ = ["Agreement", "Place", "connect_early", "open_agreement"]

PATIENCE = timedelta(minutes=10)
"""A worker may come late by as long as its imports and data take; a dead one ends the round."""

T = TypeVar("T")

_instances = itertools.count()


@dataclass(frozen=True)
class Place:
    """Where this worker stands in its round."""

    rank: int
    world: int
    local_rank: int
    local_world: int
    group_rank: int
    nodes: int
    round: int
    run: str = ""
    """The same for all rounds that are counted together; empty where nobody counts them."""

    job: str = ""
    group: str = MAIN_GROUP
    """Those whom it trains with, of the job."""

    @classmethod
    def from_environment(cls) -> Place:
        """As the launcher said; one worker alone where there was none."""

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
            group=group_in(os.environ),
        )

    @property
    def leads_node(self) -> bool:
        """Whether this worker speaks for its node."""
        return self.local_rank == 0


class Agreement:
    """Records that the workers of one round leave for each other."""

    def __init__(self, place: Place, store: dist.Store | None) -> None:
        """``store`` may be None only for a worker that is alone."""
        self.place = place
        self._store = store
        self._alone: dict[str, bytes] = {}

    def say(self, key: str, record: object) -> None:
        """Leave a record; whoever waits for it goes on."""
        data = msgspec.msgpack.encode(record)
        if self._store is None:
            self._alone[key] = data
        else:
            self._store.set(key, data)

    def hear(self, key: str, kind: type[T]) -> T:
        """Wait for a record that some worker leaves."""
        data = self._alone[key] if self._store is None else self._store.get(key)
        return decode_msgpack(data, kind)

    def said(self, key: str) -> bool:
        """Whether a record is there; never waits."""
        if self._store is None:
            return key in self._alone
        return bool(self._store.check([key]))

    def gather(self, topic: str, mine: T, kind: type[T]) -> list[T] | None:
        """Every rank says something; rank 0 gets all of it in the order of ranks, others None."""
        if self.place.rank != 0:
            self.say(f"{topic}/{self.place.rank}", mine)
            return None
        others = range(1, self.place.world)
        return [mine, *(self.hear(f"{topic}/{rank}", kind) for rank in others)]

    def decide(self, topic: str, decision: Callable[[], T], kind: type[T]) -> T:
        """Rank 0 decides (``decision`` is called there alone), everybody hears it."""
        if self.place.rank != 0:
            return self.hear(topic, kind)
        decided = decision()
        self.say(topic, decided)
        return decided


def open_agreement(place: Place, store: dist.Store | None = None) -> Agreement:
    """Meet the other workers of this round, by ``store`` if there is a connection already."""
    if place.world == 1:
        return Agreement(place, None)
    prefix = f"resile/checkpoint/{place.round}/{next(_instances)}"
    store = store or connect_early(place) or _launchers_store()
    return Agreement(place, dist.PrefixStore(prefix, store))


def connect_early(place: Place) -> dist.Store | None:
    """A connection for :func:`open_agreement`, if there is a process group: a worker that restores
    is in more of a hurry than now. The process group's own is not used: whoever waits on a
    connection keeps others from using it."""
    if place.world == 1 or not dist.is_initialized():
        return None
    return dist.distributed_c10d._get_default_store().clone()


def _launchers_store() -> dist.Store:
    """Where there is no process group yet."""
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    if host is None or port is None or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        raise RuntimeError(
            "Checkpointer.restore needs the other workers: call init_process_group before it, or "
            "start the script with 'resile run' or torchrun"
        )
    return dist.TCPStore(host, int(port), is_master=False, timeout=PATIENCE, wait_for_workers=False)
