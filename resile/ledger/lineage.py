"""The lineage of the final state: the recorded steps that count. Pure.

The final state was trained by the last round; up to the step that it resumed from, by the round of
that step; and so on back to the start. Steps off this line were trained and lost: a crash discarded
their effect with the state, and their indices have to be trained again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from resile.ledger.lines import BeginLine, TrainedLine
from resile.ledger.reader import LedgerRound, LedgerStream

__all__ = ["LineageEntry", "LineageRound", "TrainedAt", "lineage", "lost_steps"]


@dataclass(frozen=True, order=True)
class TrainedAt:
    """The step, rank and round in which an index was trained."""

    step: int
    rank: int
    round: str


@dataclass(frozen=True)
class LineageEntry:
    """A worker's line that counts, with its place and the worker's begin line."""

    place: TrainedAt
    line: TrainedLine
    begin: BeginLine


@dataclass(frozen=True)
class LineageRound:
    """A round in the lineage of the final state, up to its last step that counts."""

    round: LedgerRound
    limit: int | None
    """None for the last round, whose steps all count."""

    def entries(self) -> Iterator[LineageEntry]:
        """The lines of every worker that count."""
        for rank, turn in self.round.turns.items():
            for line in turn.steps:
                if self.limit is None or line.step <= self.limit:
                    yield LineageEntry(
                        TrainedAt(line.step, rank, self.round.name), line, turn.begin
                    )


def lineage(stream: LedgerStream) -> tuple[list[LineageRound], str | None]:
    """The rounds that count, from first to last, and the fault if the lineage is broken."""
    kept: list[LineageRound] = []
    limit: int | None = None
    index: int | None = len(stream.rounds) - 1
    while index is not None:
        current = stream.rounds[index]
        kept.append(LineageRound(current, limit))
        if current.step is None:
            return kept[::-1], None
        limit = current.step if limit is None else min(limit, current.step)
        index = _parent(stream.rounds[:index], current.of)
    origin = kept[-1].round
    if origin.step == 0:  # where steps are counted from 1, the state before the first one
        return kept[::-1], None
    what = f"step {origin.step}" + (f" of round {origin.of}" if origin.of else "")
    return kept[::-1], f"round {origin.name} resumed from {what}, which is not in the ledger"


def lost_steps(stream: LedgerStream, kept: list[LineageRound]) -> int:
    """The number of steps that were trained and lost."""
    counting = {entry.place.step for one in kept for entry in one.entries()}
    recorded = {
        (number, one.step)
        for number, round in enumerate(stream.rounds)
        for turn in round.turns.values()
        for one in turn.steps
    }
    return len(recorded) - len(counting)


def _parent(earlier: list[LedgerRound], name: str | None) -> int | None:
    """The round that a later one resumed from."""
    for index in range(len(earlier) - 1, -1, -1):
        if name is None or earlier[index].name == name:
            return index
    return None
