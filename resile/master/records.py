"""The records of a job in the master's store.

There is one record per key, so that a change writes one record and not the whole job. State that
agents report again (leases, readiness) is not stored. The main group's records have the keys that
they had when a job had one group only; those of another group are below a prefix with its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TypeVar
from urllib.parse import quote, unquote

import msgspec

from resile.decoding import decode_msgpack
from resile.job.elasticity import Elasticity, GroupSuccess
from resile.job.events import EventKind
from resile.shards.records import DatasetRecords, decode_shards
from resile.wire.directive import GroupDirective
from resile.wire.messages import FailureReport, NodeInfo, Outcome, StoreAddress

ENDINGS = {
    Outcome.SUCCEEDED: EventKind.JOB_SUCCEEDED,
    Outcome.FAILED: EventKind.JOB_FAILED,
    Outcome.STOPPED: EventKind.JOB_STOPPED,
}
"""The event for the end of a job."""

GROUP_ENDINGS = {
    Outcome.SUCCEEDED: EventKind.GROUP_SUCCEEDED,
    Outcome.FAILED: EventKind.GROUP_FAILED,
    Outcome.STOPPED: EventKind.GROUP_STOPPED,
}
"""The same for a group that is not the main one: the job may continue."""


class RoundPhase(Enum):
    """The phases of a round."""

    GATHERING = "gathering"
    """Too few nodes, or the last call is open: no members are chosen."""

    FORMING = "forming"
    """Members are chosen; they stop old workers and open the store."""

    RUNNING = "running"
    """Workers train."""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A group of the job as a whole; the main group's names the job."""

    job: str
    elasticity: Elasticity
    agreed: bool = True
    """False until the first agent gives name and sizes, where the master was given none."""

    run: str = ""
    """The same for all rounds of one count: a job that is started again under the same name counts
    its rounds from one again."""

    next_node: int = 0
    restarts: int = 0
    wanted: int | None = None
    """The number of nodes the platform was asked for, if known: more are not waited for."""

    resting: bool = False
    """Whether it is suspended: then missing nodes are not waited for."""

    floor: int = 0
    """The newest round that agents know and this master does not: the next one is newer."""

    handovers: int = 0
    """The number of the latest handover; numbers are unique, so that late answers are ignored."""

    recalled: int = 0
    """The round that was recovered from agents, if a master ever lost its state."""

    left_on_purpose: bool = False
    """Whether the node that went last left on purpose."""

    outcome: Outcome | None = None
    reason: str = ""
    report: FailureReport | None = None
    newest: int | None = None
    """The highest generation of all nodes that ever joined: a higher one is a replacement."""


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A node that is part of the job."""

    id: int
    info: NodeInfo
    slot: int | None = None
    """Its rank in its role, from its first round on."""

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
    success: GroupSuccess = GroupSuccess.ALL
    deciding: tuple[int, ...] = ()
    """The members whose success decides; empty for all of them."""

    finished: tuple[int, ...] = ()
    """Members that succeeded and have left the job since, so they cannot be asked again."""


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An event: something that happened, and why, for people."""

    seq: int
    time: float
    """Unix time."""

    kind: str
    text: str
    node: int | None = None
    round: int = 0
    group: str = ""


class DirectivesRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Directives of the job's controller for groups other than the main one."""

    groups: dict[str, GroupDirective] = msgspec.field(default_factory=dict)


JOB_KEY = "job"
DIRECTIVES_KEY = "directives"
ROUND_KEY = "round"
NODE_PREFIX = "node/"
EVENT_PREFIX = "event/"
GROUP_PREFIX = "group/"
MAIN = ""
"""The name of the main group."""


def node_key(node: int) -> str:
    """Return the key of a node."""
    return f"{NODE_PREFIX}{node}"


def event_key(seq: int) -> str:
    """Return the key of an event; keys sort in the order of events."""
    return f"{EVENT_PREFIX}{seq:012d}"


def group_key(group: str, key: str) -> str:
    """Return the key of a group's record, given the key of the main group's."""
    return key if group == MAIN else f"{GROUP_PREFIX}{quote(group, safe='')}/{key}"


class StoredGroup(msgspec.Struct, frozen=True, kw_only=True):
    """All records of one group."""

    group: str = MAIN
    job: JobRecord
    round: RoundRecord
    nodes: tuple[NodeRecord, ...] = ()


class StoredState(StoredGroup, frozen=True, kw_only=True):
    """All records of a job, as loaded from a store: the main group's, those of the other groups,
    and those common to all."""

    groups: tuple[StoredGroup, ...] = ()
    events: tuple[EventRecord, ...] = ()
    directives: DirectivesRecord = DirectivesRecord()
    shards: tuple[DatasetRecords, ...] = ()


def decode_state(stored: Mapping[str, bytes]) -> StoredState | None:
    """Decode all records of a store; None for an empty store. Raises DecodeError."""
    if JOB_KEY not in stored:
        return None
    main = _decode_group(MAIN, stored)
    return StoredState(
        job=main.job,
        round=main.round,
        nodes=main.nodes,
        groups=tuple(_decode_group(name, below) for name, below in _by_group(stored).items()),
        events=tuple(
            decode_msgpack(stored[key], EventRecord)
            for key in sorted(stored)
            if key.startswith(EVENT_PREFIX)
        ),
        directives=_decode_or(DirectivesRecord(), stored.get(DIRECTIVES_KEY)),
        shards=tuple(decode_shards(stored)),
    )


def _by_group(stored: Mapping[str, bytes]) -> dict[str, dict[str, bytes]]:
    """Return the records below each group's prefix, with that prefix removed from their keys."""
    found: dict[str, dict[str, bytes]] = {}
    for key, value in stored.items():
        if key.startswith(GROUP_PREFIX):
            name, _, below = key.removeprefix(GROUP_PREFIX).partition("/")
            found.setdefault(unquote(name), {})[below] = value
    return found


def _decode_group(name: str, stored: Mapping[str, bytes]) -> StoredGroup:
    return StoredGroup(
        group=name,
        job=decode_msgpack(stored[JOB_KEY], JobRecord),
        round=_decode_or(RoundRecord(), stored.get(ROUND_KEY)),
        nodes=tuple(
            decode_msgpack(value, NodeRecord)
            for key, value in stored.items()
            if key.startswith(NODE_PREFIX)
        ),
    )


T = TypeVar("T")


def _decode_or(absent: T, value: bytes | None) -> T:
    """Decode a record; ``absent`` if it was never written."""
    return absent if value is None else decode_msgpack(value, type(absent))
