"""How elastic a job is, and how patient: the numbers its master decides with.

Every timeout of the agreement between agents lives here, with its reason and its unit (seconds).
Users set them with flags or in the manifest; nothing else in the code invents a delay.
"""

from __future__ import annotations

import math

import msgspec

from resile.job.limits import (
    LONGEST_LEASE,
    LONGEST_SECONDS,
    MOST_NODES,
    MOST_RESTARTS,
    SHORTEST_LEASE,
)


class ElasticityError(ValueError):
    """The user asked for a size or a timeout that cannot be."""


class Elasticity(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes and patience of one job. All durations are seconds."""

    min_nodes: int = 1
    max_nodes: int = 1
    node_unit: int = 1
    """The world is always a multiple of this many nodes."""

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
        """The fewest nodes that can train: MIN rounded up to the unit."""
        return -(-self.min_nodes // self.node_unit) * self.node_unit

    def world_of(self, present: int) -> int:
        """How many of ``present`` nodes may train now; 0 when they are too few."""
        usable = min(present, self.max_nodes) // self.node_unit * self.node_unit
        return usable if usable >= self.smallest_world else 0
