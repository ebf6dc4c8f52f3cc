"""What can go wrong between a script's live state and a checkpoint.

CheckpointError (of resile.checkpoint)
├── NotSaved           save() did not bring the step to storage
├── StateMismatch      the script's state and the checkpoint do not fit: names, shapes, types
└── UnsupportedState   the script's state has something that cannot be saved
"""

from __future__ import annotations

from collections.abc import Sequence

from resile.checkpoint.errors import CheckpointError

__all__ = ["NotSaved", "StateMismatch", "UnsupportedState"]

MOST_SHOWN = 12
"""A model of another shape differs in thousands of names; the first few tell the story."""


class NotSaved(CheckpointError):
    """A step that was to be on storage is not. Says on which rank it failed, and why."""


class StateMismatch(CheckpointError):
    """The state to restore into is not the one that was saved. Names every difference."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        shown = "".join(f"\n  {problem}" for problem in self.problems[:MOST_SHOWN])
        more = len(self.problems) - MOST_SHOWN
        rest = f"\n  and {more} more" if more > 0 else ""
        super().__init__(
            f"the checkpoint does not fit the state to restore:{shown}{rest}\n"
            "strict=False restores what fits and leaves the rest as it is"
        )


class UnsupportedState(CheckpointError):
    """Something in the state cannot be saved. Names it and says what would do."""
