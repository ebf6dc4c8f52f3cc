"""A controller's instructions to a job's master: ``PUT /v1/directive``.

The master gets only what its decisions need: sizes and timeouts, how many nodes to expect, whether
the job is suspended, and the addresses of its nodes. The rest of the manifest, and the requests of
users, belong to the control plane: `resile up` or the operator.
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
    """The instructions for one group."""

    elasticity: Elasticity
    wanted_nodes: Number | None = None
    """The number of its nodes that are at the rendezvous or being started; None: not known."""


class Directive(GroupDirective, frozen=True, kw_only=True, rename="camel"):
    """The instructions for the main group, for the others, and for the job as a whole."""

    groups: Annotated[dict[Name, GroupDirective], msgspec.Meta(max_length=MAX_NODES)] = (
        msgspec.field(default_factory=dict)
    )
    """By name, for every group but the main one."""

    resting: bool = False
    """True if the job is suspended: its nodes are not waited for."""

    holders: Number | None = None
    """The number of running nodes that are older than this master: they may hold state that it does
    not know. None: not counted."""

    addresses: Addresses | None = None
    """The addresses of the job's nodes; None if no role has ports."""
