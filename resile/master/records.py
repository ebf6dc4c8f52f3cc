"""What a master remembers: the records that its store keeps.

One record a key, so that a change costs a write of its own size and not of the whole job's. What
can be asked of a living agent again (leases, who is ready) is not kept.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec

from resile.decoding import decode_msgpack
from resile.job.elasticity import Elasticity
from resile.job.events import EventKind
from resile.job.status import JobStatus
from resile.master.shards_records import DatasetRecords, decode_shards
from resile.wire.messages import FailureReport, NodeInfo, Outcome, StoreAddress

ENDINGS = {
    Outcome.SUCCEEDED: EventKind.JOB_SUCCEEDED,
    Outcome.FAILED: EventKind.JOB_FAILED,
    Outcome.STOPPED: EventKind.JOB_STOPPED,
}
"""What is told when a job ends."""


class RoundPhase(Enum):
    """The life of one round."""

    GATHERING = "gathering"
    """Too few nodes, or the last call is open: no members are chosen."""

    FORMING = "forming"
    """Members are chosen; they stop old workers and open the store."""

    RUNNING = "running"
    """Workers train."""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The job as a whole."""

    job: str
    elasticity: Elasticity
    agreed: bool = True
    """False until the first agent says what the job is, where nobody told the master."""

    run: str = ""
    """The same for all rounds that are counted together: a job that is started anew, under the same
    name, counts its rounds from one again."""

    next_node: int = 0
    restarts: int = 0
    wanted: int | None = None
    """How many nodes the platform was asked for, if anyone said: then nobody waits for more."""

    resting: bool = False
    """Whether it is suspended: then nodes that are not there are not missing."""

    floor: int = 0
    """The newest round an agent has seen that this master has not: the next one is newer."""

    handovers: int = 0
    """The number of the latest handover; each has another, so that late words are recognised."""

    recalled: int = 0
    """The round that was taken over from what agents hold, if a master ever lost its memory."""

    left_on_purpose: bool = False
    """Whether the last node that is out of the job said that it goes."""

    outcome: Outcome | None = None
    reason: str = ""
    report: FailureReport | None = None


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One node that is part of the job."""

    id: int
    info: NodeInfo
    slot: int | None = None
    """Its rank, from the first round it was taken into."""

    reached_in: int = 0
    """The first round in which its workers reached the process group; 0: they never did."""


class RoundRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The latest round."""

    number: int = 0
    phase: RoundPhase = RoundPhase.GATHERING
    members: tuple[int, ...] = ()
    """Node ids in the order of their group ranks."""

    store: StoreAddress | None = None
    reason: str = ""


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, and why: what people read."""

    seq: int
    time: float
    """Unix time."""

    kind: str
    text: str
    node: int | None = None
    round: int = 0


class BoardRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the job's controller published, and what people asked of it."""

    manifest: dict[str, Any] | None = None
    status: JobStatus | None = None
    notes_told: int = 0
    """How many of the controller's decisions are among the events."""

    wishes: dict[str, int] = msgspec.field(default_factory=dict)
    """Sizes asked for, by role."""

    suspend: bool | None = None
    """Whether it is to be suspended, once somebody asked; until then its manifest counts."""

    deleting: bool = False
    created: float = 0.0
    """Unix time of the first publication."""


JOB_KEY = "job"
BOARD_KEY = "board"
ROUND_KEY = "round"
NODE_PREFIX = "node/"
EVENT_PREFIX = "event/"


def node_key(node: int) -> str:
    """The store's key of a node."""
    return f"{NODE_PREFIX}{node}"


def event_key(seq: int) -> str:
    """The store's key of an event; sorts as it happened."""
    return f"{EVENT_PREFIX}{seq:012d}"


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """All records of a job, as a master finds them when it starts."""

    job: JobRecord
    round: RoundRecord
    nodes: tuple[NodeRecord, ...] = ()
    events: tuple[EventRecord, ...] = ()
    board: BoardRecord = BoardRecord()
    shards: tuple[DatasetRecords, ...] = ()


def decode_memory(stored: dict[str, bytes]) -> Memory | None:
    """The records behind a store's keys; None for an empty store. Raises DecodeError."""
    if JOB_KEY not in stored:
        return None
    decode = decode_msgpack
    return Memory(
        job=decode(stored[JOB_KEY], JobRecord),
        round=decode(stored[ROUND_KEY], RoundRecord) if ROUND_KEY in stored else RoundRecord(),
        nodes=tuple(
            decode(value, NodeRecord)
            for key, value in stored.items()
            if key.startswith(NODE_PREFIX)
        ),
        events=tuple(
            decode(stored[key], EventRecord)
            for key in sorted(stored)
            if key.startswith(EVENT_PREFIX)
        ),
        board=(decode(stored[BOARD_KEY], BoardRecord) if BOARD_KEY in stored else BoardRecord()),
        shards=tuple(decode_shards(stored)),
    )
