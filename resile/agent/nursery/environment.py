"""Compares the environment of the nursery with that of a worker to be forked from it.

Libraries read many variables while they are imported (thread counts, allocators, log levels), so
the nursery must import with the values that the workers have. The variables that tell a worker its
place in the job are different for each; those may differ, and a module that reads one of them at
import time is not preloaded. A worker with any other difference starts cold.
"""

from collections.abc import Mapping

from .inside.place import is_place

__all__ = ["differences", "is_place", "without_place"]


def without_place(env: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment that all workers of a node share."""
    return {name: value for name, value in env.items() if not is_place(name)}


def differences(nursery: Mapping[str, str], worker: Mapping[str, str]) -> list[str]:
    """Return the variables, sorted by name, that keep a worker from being warm."""
    names = {name for name in (*nursery, *worker) if not is_place(name)}
    return sorted(name for name in names if nursery.get(name) != worker.get(name))
