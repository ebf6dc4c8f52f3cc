"""A controller's instructions to a job's master: ``PUT /v1/directive``.

The master gets no more than it decides with: sizes and timeouts, how many nodes to expect, whether
the job rests, and where its nodes are found. What the job is otherwise, and what users ask of it,
is the control plane's: `resile up` or the operator.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from resile.job.addresses import Addresses
from resile.job.elasticity import Elasticity
from resile.job.limits import MAX_NODES
from resile.wire.bounds import Name, Number

__all__ = ["Directive", "GroupDirective"]


class GroupDirective(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a controller wants of one group."""

    elasticity: Elasticity
    wanted_nodes: Number | None = None
    """How many nodes of it are on their way to the rendezvous or there; None: not known."""


class Directive(GroupDirective, frozen=True, kw_only=True, rename="camel"):
    """What a controller wants of the main group, of the others, and of the job as a whole."""

    groups: Annotated[dict[Name, GroupDirective], msgspec.Meta(max_length=MAX_NODES)] = (
        msgspec.field(default_factory=dict)
    )
    """By name, for every group but the main one."""

    resting: bool = False
    """Whether the job is suspended: nobody need wait for its nodes."""

    holders: Number | None = None
    """How many nodes run that were there before this master: they may hold what it does not know.
    None: not counted."""

    addresses: Addresses | None = None
    """Where the job's nodes are found; None if no role has ports."""
