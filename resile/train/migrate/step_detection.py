"""Detection of step boundaries in a script that does not mark them.

The boundary is the first training forward of a registered model after every registered optimizer
has stepped. Everything that belongs to the previous step (scheduler, counters, a test at the end of
an epoch) is done by then, and the next step has changed no state except the random streams that
chose its samples: those are captured right after the last optimizer's step.

A script that calls ``migrator.step()`` itself is always right; then nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from resile.train.checkpoint.state.rng import random_states, set_random_states

__all__ = ["StepDetector"]


class StepDetector:
    """Hooks into models and optimizers and calls ``reached`` at every boundary."""

    def __init__(self, *, reached: Callable[[], None], is_asked: Callable[[], bool]) -> None:
        """Random streams are captured only while ``is_asked``, because it takes time."""
        self._reached = reached
        self._is_asked = is_asked
        self._random: dict[str, Any] | None = None
        self._optimizers: set[int] = set()
        self._waiting: set[int] = set()
        self._models = 0
        self._hooks: list[RemovableHandle] = []

    def watch(self, value: Any) -> None:
        """Hook into an object, if it is a model or an optimizer."""
        if isinstance(value, nn.Module):
            self._models += 1
            # Before all other hooks: those of FSDP gather the shards of the model.
            self._hooks.append(value.register_forward_pre_hook(self._forward, prepend=True))
        elif isinstance(value, Optimizer):
            self._optimizers.add(id(value))
            self._waiting.add(id(value))
            self._hooks.append(value.register_step_post_hook(self._stepped))

    @property
    def can_see(self) -> bool:
        """Whether step boundaries can be detected."""
        return bool(self._models and self._optimizers)

    def close(self) -> None:
        """Remove all hooks."""
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
        """Reset the random streams to their states after the last step."""
        if self._random is not None:
            set_random_states(self._random)
