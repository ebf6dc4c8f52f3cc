"""Errors between a script's live state and a checkpoint.

CheckpointError (of resile.checkpoint)
├── NotSaved           save() did not commit the step to storage
├── StateMismatch      the script's state and the checkpoint differ: names, shapes, types
└── UnsupportedState   the script's state contains something that cannot be saved
"""

from __future__ import annotations

from collections.abc import Sequence

from resile.checkpoint.errors import CheckpointError

__all__ = ["NotSaved", "StateMismatch", "UnsupportedState"]

MOST_SHOWN = 12
"""A model of another shape differs in thousands of names; the first few are enough."""


class NotSaved(CheckpointError):
    """The step is not on storage. Says on which rank it failed, and why."""


class StateMismatch(CheckpointError):
    """The state to restore into does not match the saved one. Lists every difference."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        shown = "".join(f"\n  {problem}" for problem in self.problems[:MOST_SHOWN])
        more = len(self.problems) - MOST_SHOWN
        rest = f"\n  and {more} more" if more > 0 else ""
        super().__init__(
            f"the checkpoint does not match the state to restore:{shown}{rest}\n"
            "strict=False restores what matches and leaves the rest as it is"
        )


class UnsupportedState(CheckpointError):
    """Something in the state cannot be saved. Names it and suggests an alternative."""
