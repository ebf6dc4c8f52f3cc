"""Errors of an elastic Trainer.

TrainerMistake     the Trainer is configured or called wrongly; says what would be right

Errors about the data itself are :class:`resile.train.data.errors.DataMistake`.
"""

from __future__ import annotations

__all__ = ["TrainerMistake"]


class TrainerMistake(ValueError):
    """The Trainer is configured or called in a way that cannot be resumed."""
