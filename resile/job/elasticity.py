"""The sizes and timeouts that a job's master decides with.

Every timeout of the rendezvous is defined here, with its reason and its unit (seconds). Users set
them with flags or in the manifest; no other module hard-codes a delay of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Annotated

import msgspec

from resile.job.limits import (
    MAX_LEASE,
    MAX_NODES,
    MAX_RESTARTS,
    MAX_ROLES,
    MAX_SECONDS,
    MIN_LEASE,
)

ANY_ROLE = ""
"""The role name of all nodes in a job that does not distinguish roles."""


class ElasticityError(ValueError):
    """A size or timeout that is not possible; the user's to fix."""


class GroupSuccess(Enum):
    """The nodes whose success is the success of the group."""

    ALL = "all"
    """The workers of all nodes have to succeed."""

    FIRST = "first"
    """Those of all nodes of the first role, in the order of ranks: the master of a PyTorchJob."""

    ANY = "any"
    """Those of any one node."""


class RoleSize(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes of one role a world needs, and how many it may have."""

    name: Annotated[str, msgspec.Meta(max_length=255)]
    min_nodes: int = 1
    max_nodes: int = 1
    node_unit: int = 1
    """Nodes of this role train in multiples of this."""

    def __post_init__(self) -> None:
        """Refuse sizes that no set of nodes could satisfy."""
        if not 0 <= self.min_nodes <= self.max_nodes <= MAX_NODES:
            raise ElasticityError(
                f"role {self.name}: MIN nodes must be 0 to MAX, and MAX at most {MAX_NODES}, "
                f"not {self.min_nodes} and {self.max_nodes}"
            )
        if self.node_unit < 1:
            raise ElasticityError(f"role {self.name}: node_unit must be at least 1")

    def usable(self, present: int) -> int:
        """How many of ``present`` nodes may train; may be fewer than MIN."""
        return min(present, self.max_nodes) // self.node_unit * self.node_unit

    @property
    def smallest(self) -> int:
        """MIN rounded up to the unit."""
        return -(-self.min_nodes // self.node_unit) * self.node_unit


class Elasticity(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and timeouts of one job. All durations are in seconds."""

    min_nodes: int = 1
    max_nodes: int = 1
    node_unit: int = 1
    """The world is always a multiple of this many nodes."""

    roles: Annotated[tuple[RoleSize, ...], msgspec.Meta(max_length=MAX_ROLES)] = ()
    """Sizes of each role, in the order of ranks. Empty: roles are not distinguished."""

    max_restarts: int = 3
    """How many rounds may end by a worker's own failure. Lost nodes do not count."""

    last_call: float = 3.0
    """First round only: how long to wait for more than MIN nodes, which may or may not come."""

    join_timeout: float = 600.0
    """How long to wait for MIN nodes before the job fails."""

    lease: float = 5.0
    """A node silent for this long is dead. A busy machine stalls a process for a second or two."""

    connection_grace: float = 0.5
    """A node whose connection closed is dead if not back by then: a live agent retries in 0.02."""

    evidence_grace: float = 0.05
    """The same if workers of other nodes failed as well: two witnesses need less time."""

    verdict_window: float = 0.2
    """How long a failure with no restart left waits for signs that a lost node caused it."""

    join_settle: float = 0.1
    """Nodes that join within this time enter the same new round; training continues meanwhile."""

    forming_timeout: float = 60.0
    """A member that cannot stop its workers or open a store by then is evicted."""

    start_timeout: float = 300.0
    """A round fails if some workers reached the process group and others did not for this long.

    0 turns the rule off.
    """

    handover_timeout: float = 10.0
    """How long a planned change waits for workers to save the same step.

    A node that leaves then waits as long again until its parts are copied to another node or are in
    storage, so twice this has to be less than the grace period of the platform.
    """

    independent: bool = False
    """Whether no other node waits for the nodes of this group. After its end, a replacement from
    its platform restarts it; any other group that has ended stays ended."""

    success: GroupSuccess = GroupSuccess.ALL
    """The nodes that have to succeed; the rest is then stopped. A change needs a new round."""

    def __post_init__(self) -> None:
        """Refuse sizes and timeouts that no set of nodes could satisfy."""
        self._check_sizes()
        self._check_times()

    def _check_sizes(self) -> None:
        if self.min_nodes < 1:
            raise ElasticityError(f"MIN nodes must be at least 1, not {self.min_nodes}")
        if self.max_nodes < self.min_nodes:
            raise ElasticityError(
                f"MIN nodes ({self.min_nodes}) is greater than MAX nodes ({self.max_nodes})"
            )
        if self.max_nodes > MAX_NODES:
            raise ElasticityError(f"MAX nodes must be at most {MAX_NODES}, not {self.max_nodes}")
        if self.node_unit < 1:
            raise ElasticityError(f"node_unit must be at least 1, not {self.node_unit}")
        if self.max_nodes < self.node_unit:
            raise ElasticityError(
                f"node_unit ({self.node_unit}) is greater than MAX nodes ({self.max_nodes})"
            )
        names = [role.name for role in self.roles]
        if len(set(names)) < len(names):
            raise ElasticityError(f"roles must have different names, not {', '.join(names)}")
        if not 0 <= self.max_restarts <= MAX_RESTARTS:
            raise ElasticityError(
                f"max_restarts must be between 0 and {MAX_RESTARTS}, not {self.max_restarts}"
            )

    def _check_times(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, float) and not (math.isfinite(value) and value >= 0):
                raise ElasticityError(f"{name} must be a number of seconds, not {value:g}")
            if isinstance(value, float) and value > MAX_SECONDS:
                raise ElasticityError(
                    f"{name} must be at most {MAX_SECONDS:.0f} seconds, not {value:g}"
                )
        for name in ("join_timeout", "forming_timeout"):
            if getattr(self, name) == 0:
                raise ElasticityError(f"{name} must be greater than 0")
        if not MIN_LEASE <= self.lease <= MAX_LEASE:
            raise ElasticityError(
                f"lease must be between {MIN_LEASE:g} and {MAX_LEASE:g} seconds, not {self.lease:g}"
            )

    @property
    def leave_timeout(self) -> float:
        """The longest that a leaving node waits: for a common step to be saved, and as long again
        for its own part of it to be held elsewhere."""
        return 2 * self.handover_timeout

    @property
    def longest_hold(self) -> float:
        """The longest that workers pause after they saved before a planned change.

        One handover timeout to save, one to publish, and a lease for the departure.
        """
        return self.leave_timeout + self.lease

    @property
    def smallest_world(self) -> int:
        """The fewest nodes that can train: MIN of each role, rounded up to the unit."""
        least = sum(role.smallest for role in self._sizes)
        return max(least, -(-self.min_nodes // self.node_unit) * self.node_unit)

    @property
    def _sizes(self) -> tuple[RoleSize, ...]:
        """The roles, or one that stands for all."""
        if self.roles:
            return self.roles
        return (
            RoleSize(
                name=ANY_ROLE,
                min_nodes=self.min_nodes,
                max_nodes=self.max_nodes,
                node_unit=self.node_unit,
            ),
        )

    def role_of(self, name: str) -> str:
        """The role that a node with this role name counts for."""
        return name if self.roles else ANY_ROLE

    def order_of(self, name: str) -> int:
        """The position of a role in the order of ranks."""
        return next((n for n, role in enumerate(self.roles) if role.name == name), len(self.roles))

    def knows(self, name: str) -> bool:
        """Whether nodes of this role can train here."""
        return not self.roles or self.order_of(name) < len(self.roles)

    def world(self, present: Mapping[str, int]) -> dict[str, int]:
        """How many nodes of each role may train now, given how many are present; empty if any role
        has too few."""
        sizes = {role.name: role.usable(present.get(role.name, 0)) for role in self._sizes}
        enough = all(sizes[role.name] >= role.smallest for role in self._sizes)
        return sizes if enough and sum(sizes.values()) >= self.smallest_world else {}

    def largest_world(self, expected: int) -> int:
        """How many nodes can train once ``expected`` of them have joined."""
        most = sum(role.usable(role.max_nodes) for role in self._sizes)
        return min(most, max(expected, self.smallest_world) // self.node_unit * self.node_unit)

    def shortage(self, present: Mapping[str, int]) -> str:
        """Describe which nodes are missing."""
        if not self.roles:
            return f"{sum(present.values())} of at least {self.smallest_world} joined"
        return ", ".join(
            f"role {role.name}: {present.get(role.name, 0)} of at least {role.smallest} joined"
            for role in self.roles
            if present.get(role.name, 0) < role.smallest
        )
