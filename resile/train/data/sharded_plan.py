"""How the ranks of a lockstep epoch share what is left of it, step by step. Pure.

Every rank computes the same plan from three numbers: the records left, the ranks and the batch
size. All ranks take the same number of steps, so that no collective waits for a rank without data:

- steps are full (``batch_size`` records a rank) until the end;
- the last one holds what is left, divided evenly: some ranks have one record less than others;
- when that would leave some rank without a record, the last full step and the rest are divided
  into two steps; with batches of one record, the rest joins the last full step instead (two
  records on some ranks), because there is nothing to divide.

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
    batch_size: int
    full_steps: int | None
    tail: tuple[int, ...] = ()

    def sizes(self) -> Iterator[int]:
        """How many records all ranks together take in each step."""
        full = self.world * self.batch_size
        if self.full_steps is None:
            return repeat(full)
        return chain(repeat(full, self.full_steps), self.tail)

    @property
    def steps(self) -> int | None:
        """How many steps every rank takes; None: without an end."""
        return None if self.full_steps is None else self.full_steps + len(self.tail)

    def quota(self, rank: int) -> int | None:
        """How many records one rank takes in all; None: without an end."""
        if self.full_steps is None:
            return None
        rest = sum(share(size, rank=rank, world=self.world) for size in self.tail)
        return self.full_steps * self.batch_size + rest


def plan_of(left: int | None, *, world: int, batch_size: int) -> Plan:
    """The steps of what is left; ``left`` None: a stream, for ever."""
    if left is None:
        return Plan(world, batch_size, None)
    full = world * batch_size
    steps, rest = divmod(left, full)
    if not rest:
        return Plan(world, batch_size, steps)
    if rest >= world or not steps:
        return Plan(world, batch_size, steps, (rest,))
    last = full + rest
    tail = (last,) if batch_size == 1 else (-(-last // 2), last // 2)
    return Plan(world, batch_size, steps - 1, tail)
