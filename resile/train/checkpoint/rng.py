"""The random states of this process: torch on the CPU and the accelerator, numpy, Python.

Of accelerators only the current device is included, and only if it has been used: querying the
others would initialize them. A script's own generators are included if they are in its state.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import torch

__all__ = ["Stream", "is_generator", "random_states", "set_random_states"]

_ACCELERATORS = ("cuda", "xpu", "mps", "npu", "hpu", "mlu", "musa")


def random_states() -> dict[str, Any]:
    """Return the state of each stream."""
    states: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if "numpy" in sys.modules:
        states["numpy"] = sys.modules["numpy"].random.get_state()
    for name in _ACCELERATORS:
        module = _in_use(name)
        if module is not None:
            states[name] = module.get_rng_state()
    return states


def set_random_states(states: Mapping[str, Any]) -> None:
    """Set the state of each stream. States of devices that this process lacks are skipped."""
    if "python" in states:
        random.setstate(states["python"])
    if "torch" in states:
        torch.set_rng_state(states["torch"])
    if "numpy" in states:
        import numpy

        numpy.random.set_state(states["numpy"])
    for name in _ACCELERATORS:
        module = getattr(torch, name, None)
        if name in states and module is not None and module.is_available():
            module.set_rng_state(states[name])


def _in_use(name: str) -> ModuleType | None:
    module = getattr(torch, name, None)
    if module is None or not module.is_available():
        return None
    started = getattr(module, "is_initialized", None)
    return module if started is None or started() else None


class Stream:
    """A generator of torch, numpy or Python with ``state_dict`` and ``load_state_dict``."""

    resile_per_rank = True

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def state_dict(self) -> dict[str, Any]:
        """Return the generator's state."""
        one = self._generator
        if isinstance(one, torch.Generator):
            return {"state": one.get_state()}
        if isinstance(one, random.Random):
            return {"state": one.getstate()}
        return {"state": one.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Set the generator's state."""
        one = self._generator
        if isinstance(one, torch.Generator):
            one.set_state(state["state"])
        elif isinstance(one, random.Random):
            one.setstate(state["state"])
        else:
            one.bit_generator.state = state["state"]


def is_generator(value: Any) -> bool:
    """Return whether it is a random number generator."""
    if isinstance(value, (torch.Generator, random.Random)):
        return True
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.random.Generator)
