"""JSON between a master's HTTP and its askers beside the view of a job (``job/view.py``).

Fields are only ever added, with defaults, so that an older reader understands a newer master and
a story written last year can still be shown.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from resile.job.addresses import Addresses
from resile.job.elasticity import Elasticity
from resile.job.limits import MOST_NODES
from resile.job.status import DecisionNote, JobStatus
from resile.wire.bounds import Moment, Name, Number

__all__ = [
    "EventView",
    "GroupDirective",
    "LogFile",
    "Publication",
    "Refusal",
]


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, and why: ``GET /v1/events``."""

    seq: Number
    time: Moment
    """Unix time."""

    kind: str
    text: str
    node: Number | None = None
    round: Number = 0
    group: str = ""


class _Camel(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Written as the status is, which is part of it."""


class GroupDirective(_Camel, frozen=True, kw_only=True):
    """What a controller wants of one group that is not the main one."""

    elasticity: Elasticity
    wanted_nodes: Number | None = None
    """How many nodes of it are on their way to the rendezvous or there; None: nobody knows."""


class Publication(_Camel, frozen=True, kw_only=True):
    """What a controller tells the master: ``PUT /v1/job``."""

    manifest: dict[str, Any]
    status: JobStatus
    wanted_nodes: Number | None = None
    """How many nodes are on their way to the rendezvous or there; None: nobody knows."""

    holders: Number | None = None
    """How many nodes run that were there before this master: they may hold what it does not know.
    None: nobody counts them."""

    first_note: Number = 0
    """The number of the first of ``notes``, counted over the job's life: what was told is known."""

    notes: tuple[DecisionNote, ...] = ()
    addresses: Addresses | None = None
    """Where the job's nodes are found; None if no role has ports."""
    groups: Annotated[dict[Name, GroupDirective], msgspec.Meta(max_length=MOST_NODES)] = (
        msgspec.field(default_factory=dict)
    )
    """By name, for every group but the main one: that one follows from the manifest."""


class LogFile(msgspec.Struct, frozen=True, kw_only=True):
    """One node's output: ``GET /v1/logs``."""

    node: str
    size: int


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why the master did not do as it was asked."""

    error: str
