"""Scale the learning rate with the global batch, for jobs whose batch grows with the world.

The factor is applied while the optimizer steps and removed right after. So neither the optimizer
nor a scheduler nor a checkpoint ever holds it: the saved learning rate is the one for the base
batch, and after a change of the world there is nothing to correct.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from resile.train.batch.errors import BatchMistake

__all__ = ["LinearScaling", "SqrtScaling", "scaled"]


@dataclass(frozen=True)
class _Scaling:
    base_batch: int
    """The global batch that the optimizer's learning rate was chosen for."""

    def __post_init__(self) -> None:
        if self.base_batch < 1:
            raise BatchMistake(f"base_batch={self.base_batch} must be at least 1")


class LinearScaling(_Scaling):
    """Twice the batch, twice the learning rate: the usual rule for SGD."""

    def __call__(self, batch: int) -> float:
        return batch / self.base_batch


class SqrtScaling(_Scaling):
    """Four times the batch, twice the learning rate: the usual rule for Adam and its kin."""

    def __call__(self, batch: int) -> float:
        return math.sqrt(batch / self.base_batch)


@contextmanager
def scaled(optimizer: Any, rule: Callable[[int], float], *, batch: int) -> Iterator[None]:
    """Scale the learning rates to a global batch of ``batch`` inside the ``with`` block."""
    factor = rule(batch)
    before = [group["lr"] for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"] = group["lr"] * factor
    try:
        yield
    finally:
        for group, rate in zip(optimizer.param_groups, before, strict=True):
            group["lr"] = rate
