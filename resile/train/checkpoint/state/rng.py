"""The random states of this process, and their reset when a restored epoch continues.

Captured are torch on the CPU and the accelerator, numpy and Python. Of accelerators only the
current device is included, and only if it has been used: querying the others would initialize
them. A script's own generators are included if they are in its state.

A DataLoader draws a number from torch's stream whenever an iterator is created. An uninterrupted
run creates the iterator of an epoch at its beginning; a killed one creates another in the middle.
So when an epoch is continued, its sampler resets the streams to the restored states when the first
batch is requested: numbers drawn since the restore (by the new iterator, by the script before its
loop) make no difference.

What can go wrong: several loaders in one loop. Each new iterator has drawn, and each sampler resets
the streams, until the first one whose data is read in this process: its draws are kept.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterable, Mapping
from types import FrameType, ModuleType
from typing import Any

import torch

__all__ = [
    "RandomStream",
    "ResumedStreams",
    "is_generator",
    "pass_random_states",
    "random_states",
    "set_random_states",
]


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


class RandomStream:
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


WITH_PROCESSES = "_MultiProcessingDataLoaderIter"
"""A DataLoader's iterator with worker processes. The class is private to torch, so it is recognized
by name: should that change, only loops over several loaders are affected."""


class ResumedStreams:
    """The states of the streams at construction, to be reset when the first batch is read."""

    def __init__(self) -> None:
        self._states = random_states()
        self._reads_here = False

    def put_back(self) -> None:
        """Reset the streams: the first batch after the restore is requested."""
        if not self._reads_here:
            set_random_states(self._states)
            self._reads_here = not _is_for_loader_processes(sys._getframe(1))


def pass_random_states(objects: Iterable[Any]) -> None:
    """Pass the streams, all of which are restored by now, to the samplers and datasets."""
    streams = ResumedStreams()
    for one in objects:
        restored = getattr(one, "random_restored", None)
        if callable(restored):
            restored(streams)


def _is_for_loader_processes(frame: FrameType | None) -> bool:
    """Whether the requested indices go to a DataLoader's worker processes."""
    while frame is not None:
        if type(frame.f_locals.get("self")).__name__ == WITH_PROCESSES:
            return True
        frame = frame.f_back
    return False
