"""A warmup exercises saving and restoring, and leaves no trace."""

from __future__ import annotations

import random
import threading

import numpy as np
import torch

from resile.train.checkpoint import warmup


def _streams() -> list[object]:
    """The states of all random number generators."""
    return [random.getstate(), repr(np.random.get_state()), torch.get_rng_state().tolist()]


def test_a_rehearsal_leaves_random_streams_as_they_were() -> None:
    before = _streams()
    warmup.warm_up()
    assert _streams() == before


def test_a_rehearsal_starts_no_thread() -> None:
    before = threading.active_count()
    warmup.warm_up()
    assert threading.active_count() == before


def test_a_rehearsal_really_restores() -> None:
    restored = warmup.warm_up()
    assert (restored.step, restored.world, restored.left_alone) == (1, 1, ())
    assert torch.is_grad_enabled()
