"""Errors of the elastic batch.

BatchError
├── BatchMistake  invalid arguments, or calls in the wrong order
└── PlanBroken    the loader yielded more or fewer batches than its sampler planned
"""

from __future__ import annotations

__all__ = ["BatchError", "BatchMistake", "PlanBroken"]


class BatchError(Exception):
    """Base class of all; the text can be shown to a user as it is."""


class BatchMistake(BatchError, ValueError):
    """Invalid arguments, or calls in the wrong order. Says what would be right."""


class PlanBroken(BatchError):
    """The loader yielded more or fewer batches than its sampler planned.

    Ranks would no longer train the same global batch, so training stops.
    """
