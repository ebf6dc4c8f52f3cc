"""A job's status in a form that fits into one Kubernetes object, whatever the size of the job.

Up to :data:`LISTED` nodes, a status is written as it is. For a larger job it lists only unhealthy
nodes, at most :data:`SHOWN`, with their messages; what the controller has to remember about all
nodes and pending requests goes into one compressed field. There are two steps, so that a status
that was written and read again equals the one that was decided:

- :func:`compact` drops what a large job has no room for and no decision needs;
- :func:`packed` is a lossless notation of the rest, and :func:`unpacked` reads it.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from datetime import datetime

import msgspec
from msgspec.structs import replace

from resile.decoding import DecodeError, decode_json
from resile.job.limits import MAX_NODES
from resile.job.node import LIVE, NodePhase
from resile.job.spec.role import NodeResources
from resile.job.status import (
    Condition,
    ConditionType,
    DecisionNote,
    JobStatus,
    NodeRequest,
    NodeStatus,
)
from resile.job.training import LISTED, SHOWN

__all__ = ["LISTED", "SHOWN", "compact", "packed", "unpacked"]

SENTENCE = 1024
"""Characters of a condition's message or a decision."""

COMPLAINT = 8192
"""Characters of a condition's message that lists the problems of a manifest."""

HOSTS = 300_000
"""Characters of the names of all machines together; 60 for each node. Beyond it only the machines
of unhealthy nodes are kept. The others are read from the pods in every reconcile."""

UNPACKED_AT_MOST = 4096 * MAX_NODES
"""Bytes. Only an operator writes a status, but every client that shows a job unpacks it."""

_HEALTHY = frozenset({NodePhase.RUNNING, NodePhase.SUCCEEDED, NodePhase.STOPPED})
_MEMORY = "memory"


class _Memory(msgspec.Struct, frozen=True, kw_only=True):
    """The controller's memory of every node."""

    nodes: tuple[NodeStatus, ...]
    pending_requests: tuple[NodeRequest, ...] = ()


def compact(status: JobStatus) -> JobStatus:
    """The status without what there is no room for. Idempotent."""
    status = replace(
        status,
        conditions=tuple(_short_condition(one) for one in status.conditions),
        decisions=tuple(_short_decision(one) for one in status.decisions),
    )
    if not _large(status):
        return status
    shown = {(rank.role, rank.rank) for rank in _shown(status)}
    hosts = sum(len(rank.host) for rank in status.nodes) <= HOSTS
    nodes = (
        _plain(rank) if (rank.role, rank.rank) in shown else _terse(rank, hosts=hosts)
        for rank in status.nodes
    )
    return replace(status, nodes=tuple(nodes))


def packed(status: JobStatus) -> JobStatus:
    """The status as it is stored."""
    if not _large(status):
        return status
    memory = msgspec.json.encode(
        _Memory(nodes=status.nodes, pending_requests=status.pending_requests)
    )
    shown = _shown(status)
    return replace(
        status,
        nodes=shown,
        pending_requests=(),
        unlisted=len(status.nodes) - len(shown),
        packed=base64.b64encode(zlib.compress(memory, level=6)).decode(),
    )


def unpacked(status: JobStatus) -> JobStatus:
    """The status before it was packed; raises DecodeError if no controller can have written it."""
    if not status.packed:
        return status
    reader = zlib.decompressobj()
    try:
        data = reader.decompress(base64.b64decode(status.packed), UNPACKED_AT_MOST)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise DecodeError(f"the packed part of the status cannot be read: {error}") from None
    if not reader.eof:
        raise DecodeError("the packed part of the status is truncated or too large")
    memory = decode_json(data, _Memory)
    return replace(
        status, nodes=memory.nodes, pending_requests=memory.pending_requests, unlisted=0, packed=""
    )


def _large(status: JobStatus) -> bool:
    return len(status.nodes) > LISTED or len(status.pending_requests) > LISTED


def _shown(status: JobStatus) -> tuple[NodeStatus, ...]:
    unhealthy = [rank for rank in status.nodes if rank.phase not in _HEALTHY]
    return tuple(unhealthy[:SHOWN])


def _plain(rank: NodeStatus) -> NodeStatus:
    """Without resources other than memory, which the manifest gives."""
    limits = rank.resources.limits
    given = NodeResources(limits={_MEMORY: limits[_MEMORY]} if _MEMORY in limits else {})
    return replace(rank, resources=given)


def _terse(rank: NodeStatus, *, hosts: bool) -> NodeStatus:
    """Only what a decision may need: where it runs and since when, while it does, and the machines
    to avoid, while it is being placed."""
    live = rank.phase in LIVE
    placed = rank.phase is not NodePhase.PENDING and rank.seen
    return replace(
        _plain(rank),
        message="",
        last_message="",
        host=rank.host if live and hosts else "",
        started_at=rank.started_at if live else None,
        ended_at=None,
        asked_at=None if placed else _whole(rank.asked_at),
        avoids=rank.avoids if rank.phase is NodePhase.PENDING else (),
    )


def _whole(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(microsecond=0)


def _short_condition(one: Condition) -> Condition:
    length = COMPLAINT if one.type is ConditionType.CREATED else SENTENCE
    return replace(one, message=_cut(one.message, length))


def _short_decision(one: DecisionNote) -> DecisionNote:
    return replace(one, sentence=_cut(one.sentence, SENTENCE))


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"
