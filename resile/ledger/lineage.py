"""Which recorded steps count. Pure.

What the job has at its end was trained by its last round, up to where that resumed by the round
whose step it resumed from, and so on back to the beginning. Steps that lie off this line were
trained and lost: a crash threw their effect away with the state, and their indices have to be
trained again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from resile.ledger.lines import Begin, Trained
from resile.ledger.reader import Round, Stream

__all__ = ["Entry", "Kept", "Place", "lineage", "lost_steps"]


@dataclass(frozen=True, order=True)
class Place:
    """Where an index was trained."""

    step: int
    rank: int
    round: str


@dataclass(frozen=True)
class Entry:
    """A worker's line that counts, and under which terms it was written."""

    place: Place
    line: Trained
    begin: Begin


@dataclass(frozen=True)
class Kept:
    """A round that the final state goes back to, up to its last step that counts."""

    round: Round
    limit: int | None
    """None for the last round, whose steps all count."""

    def entries(self) -> Iterator[Entry]:
        """Every worker's lines that count."""
        for rank, turn in self.round.turns.items():
            for line in turn.steps:
                if self.limit is None or line.step <= self.limit:
                    yield Entry(Place(line.step, rank, self.round.name), line, turn.begin)


def lineage(stream: Stream) -> tuple[list[Kept], str | None]:
    """The rounds that count, from the first to the last, and why the line breaks off if it does."""
    kept: list[Kept] = []
    limit: int | None = None
    index: int | None = len(stream.rounds) - 1
    while index is not None:
        current = stream.rounds[index]
        kept.append(Kept(current, limit))
        if current.step is None:
            return kept[::-1], None
        limit = current.step if limit is None else min(limit, current.step)
        index = _parent(stream.rounds[:index], current.of)
    origin = kept[-1].round
    if origin.step == 0:  # where steps are counted from 1, the state before the first one
        return kept[::-1], None
    what = f"step {origin.step}" + (f" of round {origin.of}" if origin.of else "")
    return kept[::-1], f"round {origin.name} resumed from {what}, which is not in the ledger"


def lost_steps(stream: Stream, kept: list[Kept]) -> int:
    """How many steps were trained in vain."""
    counting = {entry.place.step for one in kept for entry in one.entries()}
    recorded = {
        (number, one.step)
        for number, round in enumerate(stream.rounds)
        for turn in round.turns.values()
        for one in turn.steps
    }
    return len(recorded) - len(counting)


def _parent(earlier: list[Round], name: str | None) -> int | None:
    """The round that a later one resumed from."""
    for index in range(len(earlier) - 1, -1, -1):
        if name is None or earlier[index].name == name:
            return index
    return None
