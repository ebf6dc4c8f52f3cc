"""Where one step ends and the next begins, in a script that does not say so.

The boundary is the first forward of a registered model, training, after every registered optimizer
has stepped. Everything that belongs to the step before (scheduler, counters, a test at the end of
an epoch) is done by then, and nothing of the next has changed any state but the random streams that
chose its samples: those are remembered as they were when the last optimizer had stepped.

A script that says itself where its steps end is always right; then nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from resile.train.checkpoint.rng import random_states, set_random_states

__all__ = ["Boundaries"]


class Boundaries:
    """Watches models and optimizers and calls ``reached`` at every boundary."""

    def __init__(self, *, reached: Callable[[], None], is_asked: Callable[[], bool]) -> None:
        """Random streams are remembered only while ``is_asked``: it takes time."""
        self._reached = reached
        self._is_asked = is_asked
        self._random: dict[str, Any] | None = None
        self._optimizers: set[int] = set()
        self._waiting: set[int] = set()
        self._models = 0
        self._hooks: list[RemovableHandle] = []

    def watch(self, value: Any) -> None:
        """Look at one more object, if it is a model or an optimizer."""
        if isinstance(value, nn.Module):
            self._models += 1
            # First of all hooks: those of FSDP gather the shards of the model.
            self._hooks.append(value.register_forward_pre_hook(self._forward, prepend=True))
        elif isinstance(value, Optimizer):
            self._optimizers.add(id(value))
            self._waiting.add(id(value))
            self._hooks.append(value.register_step_post_hook(self._stepped))

    @property
    def can_see(self) -> bool:
        """Whether there is enough to tell steps by."""
        return bool(self._models and self._optimizers)

    def close(self) -> None:
        """Watch no more."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _stepped(self, optimizer: Optimizer, *_arguments: Any) -> None:
        self._waiting.discard(id(optimizer))
        if not self._waiting and self._is_asked():
            self._random = random_states()

    def _forward(self, module: nn.Module, _inputs: Any) -> None:
        if not self._optimizers or self._waiting:
            return
        if not (module.training and torch.is_grad_enabled()):
            return
        self._waiting = set(self._optimizers)
        self._reached()
        self._random = None

    def rewind_random(self) -> None:
        """Put the random streams back to where the last step left them."""
        if self._random is not None:
            set_random_states(self._random)
