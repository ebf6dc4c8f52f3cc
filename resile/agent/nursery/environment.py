"""Which environment variables may differ between the nursery and the workers forked from it.

Libraries read many variables while they are imported (thread counts, allocators, log levels), so
importing must happen with the values that the workers have. The variables that tell a worker its
place in the job are different for each; those may differ, and what reads one of them when it is
imported is not preloaded. A worker with any other difference starts cold.
"""

from collections.abc import Mapping

from .inside.place import is_place

__all__ = ["differences", "is_place", "without_place"]


def without_place(env: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment that all workers of a node share."""
    return {name: value for name, value in env.items() if not is_place(name)}


def differences(nursery: Mapping[str, str], worker: Mapping[str, str]) -> list[str]:
    """Return the variables, in order of their names, that keep a worker from being warm."""
    names = {name for name in (*nursery, *worker) if not is_place(name)}
    return sorted(name for name in names if nursery.get(name) != worker.get(name))
