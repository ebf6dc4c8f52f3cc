"""What can go wrong with the elastic batch.

BatchError
├── BatchMistake  the script asked for what cannot be, or called in the wrong order
└── PlanBroken    the loader gave more or fewer batches than its sampler planned
"""

from __future__ import annotations

__all__ = ["BatchError", "BatchMistake", "PlanBroken"]


class BatchError(Exception):
    """Base of all; the text can be shown to a user as it is."""


class BatchMistake(BatchError, ValueError):
    """The script asked for what cannot be, or called in the wrong order. Says what is right."""


class PlanBroken(BatchError):
    """The loader gave more or fewer batches than its sampler planned.

    Ranks would no longer train the same global batch, so nothing is trained any more.
    """
