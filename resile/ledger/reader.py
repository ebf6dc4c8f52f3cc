"""Read a ledger's folder: the rounds of each group and stream, in order.

Groups of one job may write to the same folder, and use the same names for their data. Each has
steps and epochs of its own, so groups are read separately.

Workers of a round write the round's name. A name that is repeated by the same rank, or with another
world size, is another round: names repeat under plain torchrun, and when a script is simply started
again. Rounds are ordered by the clocks of the machines that wrote them, so clocks must agree to
within the duration of a round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

from resile.decoding import DecodeError
from resile.group_name import MAIN_GROUP
from resile.ledger.errors import LedgerDamaged, NoLedger
from resile.ledger.lines import ENDING, BeginLine, Line, TrainedLine, decode_line
from resile.system.regular_files import NotRegularFile, open_regular_file

__all__ = ["LedgerRound", "LedgerStream", "WorkerTurn", "read_ledger"]

LONGEST_LINE = 64 << 20
"""Bytes: enough for the indices of a step with millions of samples on one worker."""


@dataclass(frozen=True)
class WorkerTurn:
    """The lines of one worker in one round."""

    begin: BeginLine
    steps: list[TrainedLine] = field(default_factory=list)


@dataclass(frozen=True)
class LedgerRound:
    """A round: workers that trained together."""

    turns: dict[int, WorkerTurn]
    """By rank; a worker that finished no step may be absent."""

    @property
    def name(self) -> str:
        """The name that its workers wrote."""
        return self._any.begin.round

    @property
    def step(self) -> int | None:
        """The step it resumed from; None if it started from nothing."""
        return self._any.begin.step

    @property
    def of(self) -> str | None:
        """The round that trained the step it resumed from, if known."""
        return self._any.begin.of

    @property
    def _any(self) -> WorkerTurn:
        return next(iter(self.turns.values()))


@dataclass(frozen=True)
class LedgerStream:
    """A stream of data that a group of a job trained."""

    name: str
    rounds: list[LedgerRound]
    """From the first to the last."""

    group: str = MAIN_GROUP


def read_ledger(folder: Path) -> list[LedgerStream]:
    """Read all ledgers in a folder; raises :class:`NoLedger` and :class:`LedgerDamaged`."""
    turns: dict[tuple[str, str], list[WorkerTurn]] = {}
    for path in sorted(folder.glob(f"*{ENDING}")):
        for turn in _turns(path):
            turns.setdefault((turn.begin.group, turn.begin.stream), []).append(turn)
    if not turns:
        raise NoLedger(f"there is no ledger in {folder}")
    return [LedgerStream(name, _rounds(turns[group, name]), group) for group, name in sorted(turns)]


def _rounds(turns: list[WorkerTurn]) -> list[LedgerRound]:
    rounds: list[LedgerRound] = []
    latest: dict[tuple[str, int], LedgerRound] = {}
    for turn in sorted(turns, key=lambda turn: turn.begin.time):
        key = turn.begin.round, turn.begin.world
        known = latest.get(key)
        if known is None or turn.begin.rank in known.turns:
            known = latest[key] = LedgerRound({})
            rounds.append(known)
        known.turns[turn.begin.rank] = turn
    return rounds


def _turns(path: Path) -> Iterator[WorkerTurn]:
    turn: WorkerTurn | None = None
    for line in _lines(path):
        if isinstance(line, BeginLine):
            if turn is not None:
                yield turn
            turn = WorkerTurn(line)
        elif turn is None:
            raise LedgerDamaged(f"{path}: steps come before the begin line")
        else:
            turn.steps.append(line)
    if turn is not None:
        yield turn


def _opened(path: Path) -> IO[bytes]:
    try:
        return open(open_regular_file(path), "rb")
    except NotRegularFile as error:
        raise LedgerDamaged(f"{path} cannot be read: {error.strerror}") from None


def _lines(path: Path) -> Iterator[Line]:
    with _opened(path) as file:
        for number, text in enumerate(iter(partial(file.readline, LONGEST_LINE), b""), start=1):
            if len(text) == LONGEST_LINE:
                raise LedgerDamaged(f"{path}, line {number}, is too long for a ledger")
            if not text.endswith(b"\n"):
                return  # truncated by a crash: nothing relied on it yet
            try:
                yield decode_line(text)
            except DecodeError as error:
                raise LedgerDamaged(f"{path}, line {number}, is invalid: {error}") from None
