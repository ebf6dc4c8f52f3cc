"""Errors of an elastic Lightning Trainer.

LightningMistake   the Trainer is configured or called wrongly; says what would be right

Errors about the data itself are :class:`resile.train.data.errors.DataMistake`.
"""

from __future__ import annotations

__all__ = ["LightningMistake"]


class LightningMistake(ValueError):
    """The Trainer is configured or called in a way that cannot be resumed."""
