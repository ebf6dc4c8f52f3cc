"""Reseeds random generators in workers: a fork copies them, fresh processes seed them differently.

Python's own `random` reseeds itself in a forked child. numpy's global state and torch's default
CPU generator are seeded by the operating system when they are first loaded, so each worker reseeds
them, unless a preloaded library seeded them on purpose. (torch's generators for accelerators start
from a constant, in every process.) multiprocessing draws a process's authentication key when it is
loaded; workers must not share one.
"""

import os
import sys
from typing import Any


class Seeds:
    """Records in the nursery which generators are still seeded by the operating system."""

    def __init__(self) -> None:
        self._torch: int | None = None

    def note(self) -> None:
        """Record torch's seed as soon as torch is loaded; a later one was set on purpose."""
        generator = _torch_generator()
        if self._torch is None and generator is not None:
            self._torch = generator.initial_seed()

    def renew(self) -> None:
        """Reseed, in a worker, the generators that a fresh process seeds by itself."""
        numpy_state: Any = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
        # An explicit seed drops the sequence: every process is then meant to start with that seed.
        if getattr(getattr(numpy_state, "_bit_generator", None), "seed_seq", None) is not None:
            numpy_state.seed()
        generator = _torch_generator()
        if generator is not None and generator.initial_seed() == self._torch:
            generator.seed()
        process = sys.modules.get("multiprocessing.process")
        if process is not None:
            process.current_process().authkey = os.urandom(32)


def _torch_generator() -> Any:
    return getattr(sys.modules.get("torch"), "default_generator", None)
