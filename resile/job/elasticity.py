"""How elastic a job is, and how patient: the numbers its master decides with.

Every timeout of the agreement between agents lives here, with its reason and its unit (seconds).
Users set them with flags or in the manifest; nothing else in the code invents a delay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import Enum
from typing import Annotated

import msgspec

from resile.job.limits import (
    LONGEST_LEASE,
    LONGEST_SECONDS,
    MOST_NODES,
    MOST_RESTARTS,
    MOST_ROLES,
    SHORTEST_LEASE,
)

ANY_ROLE = ""
"""The name of the one role of a job that does not tell its nodes apart."""


class ElasticityError(ValueError):
    """The user asked for a size or a timeout that cannot be."""


class GroupSuccess(Enum):
    """Whose success is the success of the whole group."""

    ALL = "all"
    """Every node's workers have to end well."""

    FIRST = "first"
    """Those of all nodes of the first role, in the order of ranks: the master of a PyTorchJob."""

    ANY = "any"
    """Those of one node, whichever it is."""


class RoleSize(msgspec.Struct, frozen=True, kw_only=True):
    """How many nodes of one role a world needs, and how many it may have."""

    name: Annotated[str, msgspec.Meta(max_length=255)]
    min_nodes: int = 1
    max_nodes: int = 1
    node_unit: int = 1
    """Nodes of this role train in multiples of this."""

    def __post_init__(self) -> None:
        """Refuse what no set of nodes could satisfy."""
        if not 0 <= self.min_nodes <= self.max_nodes <= MOST_NODES:
            raise ElasticityError(
                f"role {self.name}: MIN nodes must be 0 to MAX, and MAX at most {MOST_NODES}, "
                f"not {self.min_nodes} and {self.max_nodes}"
            )
        if self.node_unit < 1:
            raise ElasticityError(f"role {self.name}: node_unit must be at least 1")

    def usable(self, present: int) -> int:
        """How many of ``present`` nodes may train; they may be fewer than MIN."""
        return min(present, self.max_nodes) // self.node_unit * self.node_unit

    @property
    def smallest(self) -> int:
        """MIN rounded up to the unit."""
        return -(-self.min_nodes // self.node_unit) * self.node_unit


class Elasticity(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and patience of one job. All durations are seconds."""

    min_nodes: int = 1
    max_nodes: int = 1
    node_unit: int = 1
    """The world is always a multiple of this many nodes."""

    roles: Annotated[tuple[RoleSize, ...], msgspec.Meta(max_length=MOST_ROLES)] = ()
    """Sizes of each role, in the order of ranks. Empty: nodes of all roles count alike."""

    max_restarts: int = 3
    """How many rounds may break through a worker's own failure. Lost nodes cost nothing."""

    last_call: float = 3.0
    """First round only: how long to wait for more than MIN; nobody knows who else will come."""

    join_timeout: float = 600.0
    """How long a job below MIN waits for nodes before it gives up."""

    lease: float = 5.0
    """Silence this long is proof of death. A busy machine stalls a process for a second or two."""

    connection_grace: float = 0.5
    """A closed connection is proof when not back by then: a living agent tries again in 0.02."""

    evidence_grace: float = 0.05
    """The same, when workers elsewhere failed as well: two witnesses need less patience."""

    verdict_window: float = 0.2
    """A worker's failure with no restart left waits this long for news of a lost node behind it."""

    join_settle: float = 0.1
    """Newcomers of the same moment are taken in one new round; training goes on meanwhile."""

    forming_timeout: float = 60.0
    """A member that cannot stop its workers or open a store by then is put out."""

    start_timeout: float = 300.0
    """Some workers reached the process group and others did not for so long: the round failed.

    0 turns the rule off.
    """

    handover_timeout: float = 10.0
    """Before a planned change workers save the same step; one that takes longer is not waited for.

    A node that leaves then waits as long again until its parts are copied to another node or are in
    storage, so twice this has to be less than the grace a platform gives a leaving node.
    """

    independent: bool = False
    """Whether the group is of nodes that nobody else waits for. Once it has ended, a node that its
    platform starts as a replacement lets it begin anew; any other group that has ended stays so."""

    success: GroupSuccess = GroupSuccess.ALL
    """Who has to end well. The others are stopped then. A change counts from the next round on."""

    def __post_init__(self) -> None:
        """Refuse what no set of nodes could satisfy."""
        self._check_sizes()
        self._check_times()

    def _check_sizes(self) -> None:
        if self.min_nodes < 1:
            raise ElasticityError(f"MIN nodes must be at least 1, not {self.min_nodes}")
        if self.max_nodes < self.min_nodes:
            raise ElasticityError(
                f"MIN nodes ({self.min_nodes}) is greater than MAX nodes ({self.max_nodes})"
            )
        if self.max_nodes > MOST_NODES:
            raise ElasticityError(f"MAX nodes must be at most {MOST_NODES}, not {self.max_nodes}")
        if self.node_unit < 1:
            raise ElasticityError(f"node_unit must be at least 1, not {self.node_unit}")
        if self.max_nodes < self.node_unit:
            raise ElasticityError(
                f"node_unit ({self.node_unit}) is greater than MAX nodes ({self.max_nodes})"
            )
        names = [role.name for role in self.roles]
        if len(set(names)) < len(names):
            raise ElasticityError(f"roles must have different names, not {', '.join(names)}")
        if not 0 <= self.max_restarts <= MOST_RESTARTS:
            raise ElasticityError(
                f"max_restarts must be between 0 and {MOST_RESTARTS}, not {self.max_restarts}"
            )

    def _check_times(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, float) and not (math.isfinite(value) and value >= 0):
                raise ElasticityError(f"{name} must be a number of seconds, not {value:g}")
            if isinstance(value, float) and value > LONGEST_SECONDS:
                raise ElasticityError(
                    f"{name} must be at most {LONGEST_SECONDS:.0f} seconds, not {value:g}"
                )
        for name in ("join_timeout", "forming_timeout"):
            if getattr(self, name) == 0:
                raise ElasticityError(f"{name} must be greater than 0")
        if not SHORTEST_LEASE <= self.lease <= LONGEST_LEASE:
            raise ElasticityError(
                f"lease must be between {SHORTEST_LEASE:g} and {LONGEST_LEASE:g} seconds, "
                f"not {self.lease:g}"
            )

    @property
    def leave_timeout(self) -> float:
        """How long a node that was asked to leave waits at most: for a common step to be saved, and
        as long again for its own part of it to be held elsewhere."""
        return 2 * self.handover_timeout

    @property
    def longest_hold(self) -> float:
        """How long workers that saved before a planned change hold still at most.

        A handover's time, once more for what has to be published, and a lease for the departure.
        """
        return self.leave_timeout + self.lease

    @property
    def smallest_world(self) -> int:
        """The fewest nodes that can train: MIN rounded up to the unit, of each role."""
        least = sum(role.smallest for role in self._sizes)
        return max(least, -(-self.min_nodes // self.node_unit) * self.node_unit)

    @property
    def _sizes(self) -> tuple[RoleSize, ...]:
        """The roles, or the one that stands for all."""
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
        """As what a node of this role counts."""
        return name if self.roles else ANY_ROLE

    def order_of(self, name: str) -> int:
        """The place of a role in the order of ranks."""
        return next((n for n, role in enumerate(self.roles) if role.name == name), len(self.roles))

    def knows(self, name: str) -> bool:
        """Whether nodes of this role can train here."""
        return not self.roles or self.order_of(name) < len(self.roles)

    def world(self, present: Mapping[str, int]) -> dict[str, int]:
        """How many nodes of each role may train now, given how many are present; empty when any
        role has too few."""
        sizes = {role.name: role.usable(present.get(role.name, 0)) for role in self._sizes}
        enough = all(sizes[role.name] >= role.smallest for role in self._sizes)
        return sizes if enough and sum(sizes.values()) >= self.smallest_world else {}

    def largest_world(self, expected: int) -> int:
        """How many nodes can train once ``expected`` of them are there."""
        most = sum(role.usable(role.max_nodes) for role in self._sizes)
        return min(most, max(expected, self.smallest_world) // self.node_unit * self.node_unit)

    def shortage(self, present: Mapping[str, int]) -> str:
        """What is missing, for people."""
        if not self.roles:
            return f"{sum(present.values())} of at least {self.smallest_world} are here"
        return ", ".join(
            f"role {role.name}: {present.get(role.name, 0)} of at least {role.smallest} are here"
            for role in self.roles
            if present.get(role.name, 0) < role.smallest
        )
