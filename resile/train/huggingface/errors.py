"""What a script can ask of an elastic Trainer that cannot be.

TrainerMistake     how the Trainer is set up or called; says what would be right

Mistakes about the data itself are :class:`resile.train.data.errors.DataMistake`.
"""

from __future__ import annotations

__all__ = ["TrainerMistake"]


class TrainerMistake(ValueError):
    """The Trainer is set up or called in a way that cannot be resumed."""
