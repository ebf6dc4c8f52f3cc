"""The messages between workers and master about leased data.

There is a WebSocket per worker, on the port of the agents' connections. The worker introduces
itself once, with the round it was started in if there is one; then every request is answered in
order. Requests may be repeated over a new connection: a lease has a number, and the same number
gets the same answer, so that no shard is lost with an answer that was not received.

A worker of a round *begins* a dataset from what it restored; one rank sends what is done, the
others only its digest, which must be the same. A worker without a round (asynchronous use) reports
shards as done one by one, and the master stores that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from resile.decoding import DecodeError, MsgpackDecoder, convert
from resile.shards.spans import Spans
from resile.wire.bounds import GroupName, Line, Name, Number
from resile.wire.codec import MAX_ERROR_TEXT
from resile.wire.errors import BadFrame

SHARDS_PATH = "/v1/shards"
SHARDS_PROTOCOL = 1

MAX_SHARDS_FRAME = 1024 * 1024
"""The largest frame begins a dataset of many files after a restore in the middle of an epoch."""

MOST_PIECES = 200_000
MOST_PARTITIONS = 10_000
MOST_SPANS = 200_000
MOST_SHARDS = 1024
"""In one lease."""

REQUESTS_PER_SECOND = 5000.0
"""Of one worker: usually a few; with tiny shards a few thousand."""

REQUESTS_AT_ONCE = 5000


class Shard(msgspec.Struct, frozen=True, array_like=True):
    """Records [start, stop) of a partition; a bounded dataset has the partition 0 alone."""

    partition: Number
    start: Number
    stop: Number

    def __len__(self) -> int:
        return self.stop - self.start


class Pace(Enum):
    """The way in which ranks reach the end of a dataset."""

    TOGETHER = "together"
    """In the same step: every rank takes its exact share."""

    APART = "apart"
    """A faster rank takes more; the last shards are cut smaller."""


class DatasetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a dataset, and the order of its records."""

    sizes: Annotated[tuple[Number, ...], Meta(max_length=MOST_PIECES)] = ()
    """Records in each piece of a bounded dataset; no shard lies in two pieces."""

    partitions: Annotated[int, Meta(ge=0, le=MOST_PARTITIONS)] = 0
    """More than 0: an endless stream with so many partitions."""

    shard_size: Annotated[int, Meta(ge=1, le=2**53)]
    shuffle: bool = False
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] = 0
    pace: Pace = Pace.APART
    epochs: Annotated[int, Meta(ge=1, le=2**53)] = 1
    """Without rounds: the number of epochs, which the master begins by itself."""

    patience: Annotated[float, Meta(gt=0.0, le=1e9)] = 600.0
    """Without rounds: seconds after which a lease expires."""


Done: TypeAlias = Annotated[
    tuple[Annotated[tuple[Number, ...], Meta(max_length=MOST_SPANS)], ...],
    Meta(max_length=MOST_PARTITIONS),
]
"""The done records of each partition, in the form of :meth:`Spans.encode`."""


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a pool; see ``resile/shards/pool.py``."""

    cursor: tuple[int, ...]
    spare: tuple[Shard, ...] = ()
    left: int | None = None


Digest: TypeAlias = Annotated[str, Meta(max_length=64)]
Leases: TypeAlias = Annotated[tuple[Shard, ...], Meta(max_length=MOST_SHARDS)]


class ShardMessage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Base of all messages; the class name is the tag on the wire."""


# --- from a worker ------------------------------------------------------------------------------


class Introduce(ShardMessage, frozen=True, kw_only=True):
    """First on every connection. ``round`` None: a client without rounds."""

    protocol: int = SHARDS_PROTOCOL
    client: Name
    round: Number | None = None
    rank: Number = 0
    group: GroupName = ""
    """The group of the round; empty for the job's main group."""


class Begin(ShardMessage, frozen=True, kw_only=True):
    """The worker is about to take from a dataset. ``done`` None: another rank sends it."""

    dataset: Name
    epoch: Number = 0
    generation: Number = 0
    """The number of earlier restores in this round: the highest is valid."""

    spec: DatasetSpec
    digest: Digest
    done: Done | None = None


class Lease(ShardMessage, frozen=True, kw_only=True):
    """A request for at most so many records in so many shards, with reports of earlier ones."""

    dataset: Name
    epoch: Number
    generation: Number = 0
    number: Number
    """Counts the worker's requests for this dataset; the same number is the same request."""

    records: Number
    shards: Annotated[int, Meta(ge=0, le=MOST_SHARDS)] = MOST_SHARDS
    done: Leases = ()
    returned: Leases = ()
    """Leased and not trained: others may take them."""


# --- from the master ----------------------------------------------------------------------------


class Begun(ShardMessage, frozen=True, kw_only=True):
    """The dataset is begun: shards can be leased."""

    epoch: int


class Leased(ShardMessage, frozen=True, kw_only=True):
    """The leased shards."""

    epoch: int
    shards: tuple[Shard, ...]


class NotYet(ShardMessage, frozen=True, kw_only=True):
    """No shard is available for now; retry after so many seconds."""

    after: float
    reason: str


class EpochOver(ShardMessage, frozen=True, kw_only=True):
    """All shards were leased, and none can come back."""

    epoch: int


class NotAccepted(ShardMessage, frozen=True, kw_only=True):
    """Refused. ``stale``: this worker's round, epoch or lease is over."""

    reason: Line
    stale: bool = False


FromWorker: TypeAlias = Introduce | Begin | Lease
ToWorker: TypeAlias = Begun | Leased | NotYet | EpochOver | NotAccepted


class ShardRequest(msgspec.Struct, frozen=True):
    """A frame from a worker."""

    id: Number
    body: FromWorker


class ShardAnswer(msgspec.Struct, frozen=True):
    """A frame from the master; ``id`` is the request's."""

    id: int
    body: ToWorker


T = TypeVar("T")
_encoder = msgspec.msgpack.Encoder()
_requests = MsgpackDecoder[ShardRequest](ShardRequest)
_answers = MsgpackDecoder[ShardAnswer](ShardAnswer)


def encode_shard_frame(frame: ShardRequest | ShardAnswer) -> bytes:
    """Encode a frame of either side."""
    return _encoder.encode(frame)


def decode_request(data: bytes) -> ShardRequest:
    """Decode a worker's frame; raises :class:`BadFrame` for anything else."""
    return _decoded(_requests, data)


def decode_answer(data: bytes) -> ShardAnswer:
    """Decode a master's frame; raises :class:`BadFrame` for anything else."""
    return _decoded(_answers, data)


def digest_of(spec: DatasetSpec, *, epoch: int, done: Sequence[Spans]) -> str:
    """Return a digest that is the same for ranks with the same dataset in the same state."""
    encoded = _encoder.encode((spec, epoch, [spans.encode() for spans in done]))
    return hashlib.blake2b(encoded, digest_size=16).hexdigest()


def why_invalid(spec: DatasetSpec) -> str | None:
    """Return why a master would refuse a description, with the field; None if it would not."""
    try:
        convert(msgspec.to_builtins(spec), DatasetSpec)
    except DecodeError as error:
        return str(error)
    return None


def _decoded(decoder: MsgpackDecoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except DecodeError as error:
        complaint = str(error)[:MAX_ERROR_TEXT]
        raise BadFrame(f"not a message about shards: {complaint}") from None
