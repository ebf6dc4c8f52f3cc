"""How many nodes a role has, and which ranks.

The wanted size is a scale request, or the job's ``replicas`` for the role that it sizes, or the
role's own, brought within MIN, MAX and a multiple of nodeUnit. More nodes take the lowest free
ranks; fewer give up the highest first, so ranks stay dense and a job's rank 0 is the last to go.
Ranks that have succeeded or were given up keep their place: a size is about nodes at work, and a
rank given up is not worth starting elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from resile.job.role import RoleSpec
from resile.job.spec import JobSpec

__all__ = ["Ranks", "Settled", "asked_size", "new_ranks", "settle", "surplus_ranks"]


@dataclass(frozen=True)
class Settled:
    """A size a role can have, and why it differs from the one asked for (or an empty text)."""

    size: int
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """The ranks of one role by what has become of them. All others are free."""

    at_work: Collection[int] = ()
    done: Collection[int] = ()
    given_up: Collection[int] = ()


def asked_size(spec: JobSpec, role: str, *, requests: Mapping[str, int]) -> int | None:
    """The size asked for from outside the role; None if it is left to the role itself."""
    if role in requests:
        return requests[role]
    return spec.replicas if role == spec.scaled_role() else None


def settle(role: RoleSpec, asked: int | None) -> Settled:
    """The nearest size to ``asked`` that the role can have; its own if None."""
    size, unit = role.size, role.node_unit
    wish = size.wanted if asked is None else asked
    least = -(-size.min // unit) * unit
    most = size.max // unit * unit
    nearest = max(least, min(most, wish // unit * unit))
    if nearest == wish or asked is None:
        return Settled(nearest)
    if wish < least:
        return Settled(nearest, f"{wish} is less than min ({least})")
    if wish > most:
        return Settled(nearest, f"{wish} is more than max ({most})")
    return Settled(nearest, f"{wish} is not a multiple of nodeUnit ({unit})")


def surplus_ranks(ranks: Ranks, wanted: int) -> list[int]:
    """The ranks at work to stop, highest first."""
    excess = len(ranks.at_work) - wanted
    return sorted(ranks.at_work, reverse=True)[:excess] if excess > 0 else []


def new_ranks(role: RoleSpec, ranks: Ranks, *, wanted: int) -> list[int]:
    """The ranks to fill anew, lowest first.

    A rank that was given up lowers the size. Only where it would fall below MIN is another rank
    taken instead, as far as MAX allows.
    """
    size = role.size
    target = min(size.max, max(wanted, size.min + len(ranks.given_up)))
    taken = {*ranks.at_work, *ranks.done, *ranks.given_up}
    free = (rank for rank in range(size.max + len(taken)) if rank not in taken)
    return [next(free) for _ in range(max(0, target - len(taken)))]
