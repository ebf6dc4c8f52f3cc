"""How far a job has come in its data: one small record that travels with the model.

It counts what the whole job completed, so it means the same at any world size, and it is the same
on all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from resile.decoding import convert
from resile.train.data.errors import PositionMisfit
from resile.train.data.order import ORDER

__all__ = ["Position"]


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Where in which epoch of which order."""

    epoch: int = 0
    completed: int = 0
    """Samples of this epoch that the whole job has trained."""

    seed: int
    length: int
    shuffle: bool
    order: int = ORDER
    steps: int = 0
    """Training steps ever taken on this data."""

    epochs_set: bool = False
    """Whether the script says which epoch is trained, with ``set_epoch``."""

    trained_by: str | None = None
    """The round that took the last of them, as the ledger calls it."""

    def saved(self) -> dict[str, object]:
        """As it is kept with the state: names, numbers and nothing else."""
        return msgspec.structs.asdict(self)

    def restored(self, saved: Mapping[str, object]) -> Position:
        """The saved position, if it is one in the data that this one is in.

        The seed is the saved one: an epoch goes on as it began. Between two epochs the data may
        have changed. Raises :class:`PositionMisfit`.
        """
        try:
            found = convert(dict(saved), Position)
        except (TypeError, ValueError) as error:
            raise PositionMisfit(f"this is not a position in data: {error}") from None
        if found.completed in (0, found.length):
            return msgspec.structs.replace(
                found,
                completed=self.length if found.completed else 0,
                length=self.length,
                shuffle=self.shuffle,
                order=ORDER,
            )
        if found.order != ORDER:
            raise PositionMisfit(
                f"epoch {found.epoch} was begun by another version of Resile, which had another "
                "order of indices; begin a new epoch, or go on with that version"
            )
        for name in ("length", "shuffle"):
            was, now = getattr(found, name), getattr(self, name)
            if was != now:
                raise PositionMisfit(
                    f"epoch {found.epoch} was begun with {name}={was} and cannot go on with "
                    f"{name}={now}"
                )
        return found
