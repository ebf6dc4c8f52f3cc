"""What workers and master say to each other about data.

A WebSocket per worker, beside the agents' and on the same port. The worker introduces itself once,
with the round it was started in if there is one; then every request is answered in order. Requests
may be sent again over a new connection: a lease carries a number, and the same number gets the same
answer, so that no shard is lost with an answer that nobody received.

A worker of a round *begins* a dataset from what it restored; the rank that speaks for all of them
sends what is done, the others only its digest, which must be the same. A worker without a round
(asynchronous use) reports shards as done one by one, and the master remembers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from resile.decoding import DecodeError, MsgpackDecoder, convert
from resile.wire.bounds import GroupName, Line, Name, Number
from resile.wire.codec import LONGEST_COMPLAINT
from resile.wire.errors import BadFrame
from resile.wire.shards_spans import Spans

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
"""One worker asks a few times a second; one that trains on tiny shards a few thousand times."""

REQUESTS_AT_ONCE = 5000


class Shard(msgspec.Struct, frozen=True, array_like=True):
    """Records [start, stop) of a partition; a bounded dataset has the partition 0 alone."""

    partition: Number
    start: Number
    stop: Number

    def __len__(self) -> int:
        return self.stop - self.start


class Pace(Enum):
    """How the ranks of a dataset end."""

    TOGETHER = "together"
    """In the same step: every rank takes its exact part."""

    APART = "apart"
    """Whoever asks first takes more; the last shards are cut smaller."""


class DatasetSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What is handed out, and in which order."""

    sizes: Annotated[tuple[Number, ...], Meta(max_length=MOST_PIECES)] = ()
    """Records in each piece of a bounded dataset; no shard lies in two pieces."""

    partitions: Annotated[int, Meta(ge=0, le=MOST_PARTITIONS)] = 0
    """More than 0: a stream of so many partitions without an end."""

    shard_size: Annotated[int, Meta(ge=1, le=2**53)]
    shuffle: bool = False
    seed: Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] = 0
    pace: Pace = Pace.APART
    epochs: Annotated[int, Meta(ge=1, le=2**53)] = 1
    """Without rounds: how often the master starts anew by itself."""

    patience: Annotated[float, Meta(gt=0.0, le=1e9)] = 600.0
    """Without rounds: seconds after which a lease that was not reported as done is void."""


Done: TypeAlias = Annotated[
    tuple[Annotated[tuple[Number, ...], Meta(max_length=MOST_SPANS)], ...],
    Meta(max_length=MOST_PARTITIONS),
]
"""What is done, a partition each, as :meth:`Spans.encode` writes it."""


class PoolState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a pool was handed out; see ``wire/shards_pool.py``."""

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
    """The group whose round it is; empty for the job's main group."""


class Begin(ShardMessage, frozen=True, kw_only=True):
    """I am about to take from this dataset. ``done`` None: another rank says what is done."""

    dataset: Name
    epoch: Number = 0
    generation: Number = 0
    """How often state was restored in this round before: the latest counts."""

    spec: DatasetSpec
    digest: Digest
    done: Done | None = None


class Lease(ShardMessage, frozen=True, kw_only=True):
    """Give me at most so many records in so many shards; these shards I have done."""

    dataset: Name
    epoch: Number
    generation: Number = 0
    number: Number
    """Counts my requests for this dataset; the same number is the same request."""

    records: Number
    shards: Annotated[int, Meta(ge=0, le=MOST_SHARDS)] = MOST_SHARDS
    done: Leases = ()
    returned: Leases = ()
    """Taken and not trained: somebody else may."""


# --- from the master ----------------------------------------------------------------------------


class Begun(ShardMessage, frozen=True, kw_only=True):
    """The dataset can be taken from."""

    epoch: int


class Leased(ShardMessage, frozen=True, kw_only=True):
    """These are yours."""

    epoch: int
    shards: tuple[Shard, ...]


class NotYet(ShardMessage, frozen=True, kw_only=True):
    """Nothing to give for now; ask again in so many seconds."""

    after: float
    reason: str


class EpochOver(ShardMessage, frozen=True, kw_only=True):
    """Everything was given out, and nothing can come back."""

    epoch: int


class NotAccepted(ShardMessage, frozen=True, kw_only=True):
    """Refused. ``stale``: this worker's round, epoch or lease is over."""

    reason: Line
    stale: bool = False


FromWorker: TypeAlias = Introduce | Begin | Lease
ToWorker: TypeAlias = Begun | Leased | NotYet | EpochOver | NotAccepted


class ShardRequest(msgspec.Struct, frozen=True):
    """One frame from a worker."""

    id: Number
    body: FromWorker


class ShardAnswer(msgspec.Struct, frozen=True):
    """One frame from the master; ``id`` is the request's."""

    id: int
    body: ToWorker


T = TypeVar("T")
_encoder = msgspec.msgpack.Encoder()
_requests = MsgpackDecoder[ShardRequest](ShardRequest)
_answers = MsgpackDecoder[ShardAnswer](ShardAnswer)


def encode_shard_frame(frame: ShardRequest | ShardAnswer) -> bytes:
    """One frame of either side."""
    return _encoder.encode(frame)


def decode_request(data: bytes) -> ShardRequest:
    """Raise :class:`BadFrame` for anything that is not a worker's frame."""
    return _decoded(_requests, data)


def decode_answer(data: bytes) -> ShardAnswer:
    """Raise :class:`BadFrame` for anything that is not a master's frame."""
    return _decoded(_answers, data)


def digest_of(spec: DatasetSpec, *, epoch: int, done: Sequence[Spans]) -> str:
    """The same for two ranks that mean the same dataset in the same state."""
    told = _encoder.encode((spec, epoch, [spans.encode() for spans in done]))
    return hashlib.blake2b(told, digest_size=16).hexdigest()


def why_unfit(spec: DatasetSpec) -> str | None:
    """Why a master would not take a description, if so; names the field."""
    try:
        convert(msgspec.to_builtins(spec), DatasetSpec)
    except DecodeError as error:
        return str(error)
    return None


def _decoded(decoder: MsgpackDecoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except DecodeError as error:
        complaint = str(error)[:LONGEST_COMPLAINT]
        raise BadFrame(f"not a message about shards: {complaint}") from None
