"""Groups: the roles of a job that share one world, and the order of their ranks.

A manifest without ``groups`` has one group of all its Lockstep roles. A job may have several, such
as a world that trains and a world that evaluates; each has rounds, steps and an end of its own.
Nodes of other roles have a world each, so that their failures and restarts concern nobody else.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

from msgspec import Meta

from resile.job.fields import Count, Label, ManifestStruct
from resile.job.limits import MOST_ROLES

__all__ = ["DEFAULT_GROUP", "GroupSpec", "GroupSuccessPolicy", "solo_group"]

DEFAULT_GROUP = "train"
"""The name of the group of a job that has only one, and of the one whose progress stands for the
job's where there are several."""


class GroupSuccessPolicy(str, Enum):
    """Which nodes of a group have to complete for the group to have completed."""

    ALL = "All"
    FIRST_ROLE = "FirstRole"
    """All nodes of the role that has the first ranks: a chief, or the Master of a PyTorchJob."""

    ANY = "Any"


class GroupSpec(ManifestStruct, frozen=True, kw_only=True):
    """Roles that train in lockstep with each other."""

    roles: Annotated[
        Annotated[tuple[Label, ...], Meta(min_length=1, max_length=MOST_ROLES)],
        Meta(description="The roles, in the order of their ranks: the first one has rank 0."),
    ]
    success_policy: Annotated[
        GroupSuccessPolicy,
        Meta(
            description="When the group has completed: All its nodes have, all nodes of the "
            "FirstRole have, or Any one has. The others are stopped then."
        ),
    ] = GroupSuccessPolicy.ALL
    max_restarts: Annotated[
        Count | None, Meta(description="As the job's maxRestarts, for this group alone.")
    ] = None


def solo_group(role: str, rank: int) -> str:
    """The name of the world that a node has for itself."""
    return f"{role}/{rank}"
