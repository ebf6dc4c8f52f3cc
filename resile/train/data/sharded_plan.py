"""Division of the rest of a lockstep epoch between ranks, step by step. Pure.

Every rank computes the same plan from three numbers: the remaining records, the ranks and the
records of a full step. All ranks take the same number of steps, so that no collective waits for a
rank without data:

- steps are full until the end, divided evenly: the first ranks may have one record more;
- the last one holds what is left;
- when that would leave some rank without a record, the last full step and the rest are divided
  into two steps; where these would again be too small, the rest joins the last full step instead.

Only an epoch with fewer remaining records than ranks cannot be divided like that. Its one step
gives the first ranks a record each and the others none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat

__all__ = ["Plan", "plan_of", "share"]


def share(size: int, *, rank: int, world: int) -> int:
    """Return one rank's number of records in a step: even, the first ranks one more."""
    return size // world + (rank < size % world)


@dataclass(frozen=True)
class Plan:
    """A number of full steps, then a few smaller ones. ``full_steps`` None: endless."""

    world: int
    full: int
    """Records of a full step, over all ranks."""

    full_steps: int | None
    tail: tuple[int, ...] = ()

    def sizes(self) -> Iterator[int]:
        """Yield the number of records of all ranks in each step."""
        if self.full_steps is None:
            return repeat(self.full)
        return chain(repeat(self.full, self.full_steps), self.tail)

    @property
    def steps(self) -> int | None:
        """The number of steps of every rank; None: endless."""
        return None if self.full_steps is None else self.full_steps + len(self.tail)

    def quota(self, rank: int) -> int | None:
        """Return the total number of records of one rank; None: endless."""
        if self.full_steps is None:
            return None
        rest = sum(share(size, rank=rank, world=self.world) for size in self.tail)
        return self.full_steps * share(self.full, rank=rank, world=self.world) + rest


def plan_of(left: int | None, *, world: int, full: int) -> Plan:
    """Plan the remaining steps of ``full`` records each; ``left`` None: an endless stream."""
    if left is None:
        return Plan(world, full, None)
    steps, rest = divmod(left, full)
    if not rest:
        return Plan(world, full, steps)
    if rest >= world or not steps:
        return Plan(world, full, steps, (rest,))
    last = full + rest
    tail = (last,) if last // 2 < world else (-(-last // 2), last // 2)
    return Plan(world, full, steps - 1, tail)
