"""The loss of a step and the count it is a mean over, summed over its passes.

Both stay on the loss's device, so that nothing waits for the device until the value is read.
"""

from __future__ import annotations

from typing import Any

import torch

from resile.train.batch.exchange import Exchange

__all__ = ["Tally"]


class Tally:
    """The sums of one step on one rank."""

    def __init__(self, grad_sync: Exchange) -> None:
        self._grad_sync = grad_sync
        self._loss: Any = None
        self._count: Any = None
        self._factor: Any = 1.0
        self._mean: float | None = None

    def add(self, loss: Any, weight: Any, *, count: Any) -> None:
        """Add one pass; a filler's loss is ignored, it may be anything."""
        dtype = _precise(loss)
        if self._loss is None:
            self._loss, self._count = loss.new_zeros((2,), dtype=dtype)
        if weight is not None:
            self._loss = self._loss + loss.detach().to(dtype) * weight
            self._count = self._count + count

    def rescaled(self, expected: int, *, world: int) -> Any:
        """Return the factor that makes the gradient the mean over all counts.

        A collective. With a total count of 0 the factor is 0.
        """
        total = self._grad_sync.mean(self._count.clone()) * world
        self._factor = torch.where(total > 0, expected / total, torch.zeros_like(total))
        return self._factor

    def mean_loss(self) -> float:
        """Return the loss over the whole global batch. A collective on its first call."""
        if self._mean is None:
            self._mean = float(self._grad_sync.mean(self._loss.clone()) * self._factor)
        return self._mean


def _precise(loss: Any) -> Any:
    return torch.float32 if loss.device.type == "mps" else torch.float64
