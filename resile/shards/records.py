"""Stored records of leased datasets: the beginning, the pool, and each client's last answer.

There are three kinds of record, so that a lease costs two small writes whatever the size of the
dataset: the large one, with what was done when the dataset was begun, is written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote

import msgspec

from resile.decoding import decode_msgpack
from resile.shards.protocol import DatasetSpec, Done, PoolState, Shard

SHARDS_PREFIX = "shards/"
_BEGUN, _POOL, _CLIENT = "begun/", "pool/", "client/"


class DatasetKey(NamedTuple):
    """The key of a dataset: groups that use the same name with rounds have one each."""

    group: str
    dataset: str


class BegunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A dataset as it was begun."""

    dataset: str
    spec: DatasetSpec
    epoch: int
    digest: str
    done: Done
    round: int | None = None
    """None: without rounds."""

    generation: int = 0
    group: str = ""
    """The group of the round; empty without rounds."""

    @property
    def key(self) -> DatasetKey:
        """The key of the dataset within the job."""
        return DatasetKey(self.group, self.dataset)


class PoolRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a dataset's pool."""

    dataset: str
    pool: PoolState
    group: str = ""


class ClientRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A client of a dataset: its last request, the answer, and the shards it still holds."""

    dataset: str
    client: str
    number: int
    answer: tuple[Shard, ...] = ()
    held: tuple[Shard, ...] = ()
    """Without rounds: leased and not yet done."""

    group: str = ""


class DatasetRecords(msgspec.Struct, kw_only=True):
    """All records of one dataset."""

    begun: BegunRecord
    pool: PoolRecord | None = None
    clients: list[ClientRecord] = msgspec.field(default_factory=list)


def begun_key(dataset: DatasetKey) -> str:
    """Return the key of a dataset's beginning."""
    return f"{SHARDS_PREFIX}{_BEGUN}{_written(dataset)}"


def pool_key(dataset: DatasetKey) -> str:
    """Return the key of a dataset's pool."""
    return f"{SHARDS_PREFIX}{_POOL}{_written(dataset)}"


def client_key(dataset: DatasetKey, client: str) -> str:
    """Return the key of a dataset's client."""
    return f"{SHARDS_PREFIX}{_CLIENT}{_written(dataset)}/{_quoted(client)}"


def decode_shards(stored: Mapping[str, bytes]) -> list[DatasetRecords]:
    """Decode the records of all datasets in a store."""
    decode = decode_msgpack
    found: dict[DatasetKey, DatasetRecords] = {}
    for value in _below(stored, _BEGUN):
        begun = decode(value, BegunRecord)
        found[begun.key] = DatasetRecords(begun=begun)
    for value in _below(stored, _POOL):
        pool = decode(value, PoolRecord)
        found[DatasetKey(pool.group, pool.dataset)].pool = pool
    for value in _below(stored, _CLIENT):
        client = decode(value, ClientRecord)
        found[DatasetKey(client.group, client.dataset)].clients.append(client)
    return list(found.values())


def _written(dataset: DatasetKey) -> str:
    """Return the key as text. The main group's has the form from before there were groups; '@' is
    in no quoted name."""
    name = _quoted(dataset.dataset)
    return f"{name}@{_quoted(dataset.group)}" if dataset.group else name


def _below(stored: Mapping[str, bytes], kind: str) -> list[bytes]:
    return [stored[key] for key in stored if key.startswith(SHARDS_PREFIX + kind)]


@lru_cache(maxsize=10_000)
def _quoted(name: str) -> str:
    return quote(name, safe="")
