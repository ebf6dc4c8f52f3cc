"""What a script can ask of an elastic Lightning Trainer that cannot be.

LightningMistake   how the Trainer is set up or called; says what would be right

Mistakes about the data itself are :class:`resile.train.data.errors.DataMistake`.
"""

from __future__ import annotations

__all__ = ["LightningMistake"]


class LightningMistake(ValueError):
    """The Trainer is set up or called in a way that cannot be resumed."""
