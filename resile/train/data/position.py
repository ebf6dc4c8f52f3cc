"""A job's position in its data: one small record that is saved with the model.

It counts what the whole job completed, so it has the same meaning at any world size, and it is the
same on all ranks.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from resile.decoding import convert
from resile.train.data.errors import PositionMisfit
from resile.train.data.order import ORDER

__all__ = ["Position"]


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """A position in an epoch of an order."""

    epoch: int = 0
    completed: int = 0
    """Number of samples of this epoch that the whole job has trained."""

    seed: int
    length: int
    shuffle: bool
    order: int = ORDER
    steps: int = 0
    """Total number of training steps on this data."""

    epochs_set: bool = False
    """Whether the script selects epochs with ``set_epoch``."""

    trained_by: str | None = None
    """The round of the last step, in the ledger's form."""

    def saved(self) -> dict[str, object]:
        """Return it as a plain dictionary for the state."""
        return msgspec.structs.asdict(self)

    def restored(self, saved: Mapping[str, object]) -> Position:
        """Return the saved position, if it matches this position's data.

        The seed is the saved one: an epoch continues as it began. Between two epochs the data may
        have changed. Raises :class:`PositionMisfit`.
        """
        try:
            found = convert(dict(saved), Position)
        except (TypeError, ValueError) as error:
            raise PositionMisfit(f"not a valid position in data: {error}") from None
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
                f"epoch {found.epoch} was begun by another version of Resile, with a different "
                "order of indices; begin a new epoch, or continue with that version"
            )
        for name in ("length", "shuffle"):
            was, now = getattr(found, name), getattr(self, name)
            if was != now:
                raise PositionMisfit(
                    f"epoch {found.epoch} was begun with {name}={was} and cannot continue with "
                    f"{name}={now}"
                )
        return found
