"""Groups: the roles of a job that share one world, and the order of their ranks.

A manifest without ``groups`` has one group of all its Lockstep roles. A job may have several, such
as a world that trains and a world that evaluates; each has its own rounds, steps and end. Each node
of any other role is a world of its own, so that its failures and restarts affect no other node.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta

from resile.job.limits import MAX_ROLES
from resile.job.spec.fields import Count, DnsLabel, ManifestStruct

__all__ = ["DEFAULT_GROUP", "GroupSpec", "GroupSuccessPolicy", "solo_group"]

DEFAULT_GROUP = "train"
"""The name of the group of a job that has only one, and of the one whose progress stands for the
job's where there are several."""


class GroupSuccessPolicy(str, Enum):
    """The nodes of a group that have to complete for the group to complete."""

    ALL = "All"
    FIRST_ROLE = "FirstRole"
    """All nodes of the role that has the first ranks: a chief, or the Master of a PyTorchJob."""

    ANY = "Any"


class GroupSpec(ManifestStruct, frozen=True, kw_only=True):
    """Roles that train in lockstep with each other."""

    roles: Annotated[
        Annotated[tuple[DnsLabel, ...], Meta(min_length=1, max_length=MAX_ROLES)],
        Meta(description="The roles, in the order of their ranks: the first one has rank 0."),
    ]
    success_policy: Annotated[
        GroupSuccessPolicy,
        Meta(
            description="When the group is complete: when All its nodes are, all nodes of the "
            "FirstRole, or Any one. The others are then stopped."
        ),
    ] = GroupSuccessPolicy.ALL
    max_restarts: Annotated[
        Count | None, Meta(description="Like the job's maxRestarts, for this group alone.")
    ] = None


def solo_group(role: str, rank: int) -> str:
    """The group name of a node that is a world of its own."""
    return f"{role}/{rank}"
