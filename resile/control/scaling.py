"""The size of a role, and the ranks to add or remove.

The wanted size is that of a scale request, or the job's ``replicas`` for the scaled role, or the
role's own, within MIN and MAX and rounded to a multiple of nodeUnit. Scaling up takes the lowest
free ranks; scaling down removes the highest first, so that ranks stay dense and rank 0 is the last
to go. Ranks that have succeeded or were given up stay as they are: a size counts active nodes, and
a rank that was given up is not started elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from resile.job.role import RoleSpec
from resile.job.spec import JobSpec

__all__ = ["Ranks", "Settled", "asked_size", "new_ranks", "settle", "surplus_ranks"]


@dataclass(frozen=True)
class Settled:
    """A size that a role can have, and why it differs from the requested one, if it does."""

    size: int
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """The ranks of one role by state. All others are free."""

    at_work: Collection[int] = ()
    done: Collection[int] = ()
    given_up: Collection[int] = ()


def asked_size(spec: JobSpec, role: str, *, requests: Mapping[str, int]) -> int | None:
    """The size requested from outside the role; None if the role's own applies."""
    if role in requests:
        return requests[role]
    return spec.replicas if role == spec.scaled_role() else None


def settle(role: RoleSpec, asked: int | None) -> Settled:
    """The nearest size to ``asked`` that the role can have; the role's own if None."""
    size, unit = role.size, role.node_unit
    target = size.wanted if asked is None else asked
    least = -(-size.min // unit) * unit
    most = size.max // unit * unit
    nearest = max(least, min(most, target // unit * unit))
    if nearest == target or asked is None:
        return Settled(nearest)
    if target < least:
        return Settled(nearest, f"{target} is less than min ({least})")
    if target > most:
        return Settled(nearest, f"{target} is more than max ({most})")
    return Settled(nearest, f"{target} is not a multiple of nodeUnit ({unit})")


def surplus_ranks(ranks: Ranks, wanted: int) -> list[int]:
    """The active ranks to stop, highest first."""
    excess = len(ranks.at_work) - wanted
    return sorted(ranks.at_work, reverse=True)[:excess] if excess > 0 else []


def new_ranks(role: RoleSpec, ranks: Ranks, *, wanted: int) -> list[int]:
    """The ranks to add, lowest first.

    A rank that was given up lowers the size. Only if it would fall below MIN, another rank is added
    instead, as far as MAX allows.
    """
    size = role.size
    target = min(size.max, max(wanted, size.min + len(ranks.given_up)))
    taken = {*ranks.at_work, *ranks.done, *ranks.given_up}
    free = (rank for rank in range(size.max + len(taken)) if rank not in taken)
    return [next(free) for _ in range(max(0, target - len(taken)))]
