"""How the ranks of a lockstep epoch share what is left of it, step by step. Pure.

Every rank computes the same plan from three numbers: the records left, the ranks and the records of
a full step. All ranks take the same number of steps, so that no collective waits for a rank without
data:

- steps are full until the end, divided evenly: the first ranks may have one record more;
- the last one holds what is left;
- when that would leave some rank without a record, the last full step and the rest are divided
  into two steps; where these would again be too small, the rest joins the last full step instead.

Only an epoch that has fewer records left than there are ranks cannot be shared like that. Its one
step gives the first ranks a record each and the others none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, repeat

__all__ = ["Plan", "plan_of", "share"]


def share(size: int, *, rank: int, world: int) -> int:
    """How many records of a step are one rank's: as even as can be, the first ranks one more."""
    return size // world + (rank < size % world)


@dataclass(frozen=True)
class Plan:
    """So many full steps, then a few smaller ones. ``full_steps`` None: for ever."""

    world: int
    full: int
    """Records of a full step, over all ranks."""

    full_steps: int | None
    tail: tuple[int, ...] = ()

    def sizes(self) -> Iterator[int]:
        """How many records all ranks together take in each step."""
        if self.full_steps is None:
            return repeat(self.full)
        return chain(repeat(self.full, self.full_steps), self.tail)

    @property
    def steps(self) -> int | None:
        """How many steps every rank takes; None: without an end."""
        return None if self.full_steps is None else self.full_steps + len(self.tail)

    def quota(self, rank: int) -> int | None:
        """How many records one rank takes in all; None: without an end."""
        if self.full_steps is None:
            return None
        rest = sum(share(size, rank=rank, world=self.world) for size in self.tail)
        return self.full_steps * share(self.full, rank=rank, world=self.world) + rest


def plan_of(left: int | None, *, world: int, full: int) -> Plan:
    """The steps of what is left, ``full`` records each; ``left`` None: a stream, for ever."""
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
