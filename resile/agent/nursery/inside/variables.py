"""Environment variables: those that tell a worker its place, and those that a module reads.

`os.environ` keeps its values in a dictionary of bytes. While modules are observed, it is replaced
by one that reports every access. Reads by C code through the C library are not seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

_PLACE = frozenset(
    {
        "RANK",
        "LOCAL_RANK",
        "GROUP_RANK",
        "NODE_RANK",
        "ROLE_RANK",
        "ROLE_NAME",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_WORLD_SIZE",
        "ROLE_WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "TF_CONFIG",
        "CUDA_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "ZE_AFFINITY_MASK",
        "ASCEND_RT_VISIBLE_DEVICES",
    }
)
_PLACE_PREFIXES = ("TORCHELASTIC_", "RESILE_", "TORCH_NCCL_", "NCCL_")


def is_per_worker(variable: str) -> bool:
    """Whether a variable tells a worker its place and may differ from worker to worker."""
    return variable in _PLACE or variable.startswith(_PLACE_PREFIXES)


class WatchedVariables(dict[bytes, bytes]):
    """The values of `os.environ`, with a callback for each access.

    Attributes:
        on_read: called with a variable and its value, `None` if it is not set.
        on_read_all: called when all variables are iterated.
        on_write: called with a variable and its new value, `None` if it is removed.
    """

    on_read: Callable[[str, str | None], None]
    on_read_all: Callable[[], None]
    on_write: Callable[[str, str | None], None]

    def __getitem__(self, key: bytes) -> bytes:
        value = self.get(key)
        self.on_read(os.fsdecode(key), None if value is None else os.fsdecode(value))
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[bytes]:
        self.on_read_all()
        return super().__iter__()

    def __setitem__(self, key: bytes, value: bytes) -> None:
        self.on_write(os.fsdecode(key), os.fsdecode(value))
        super().__setitem__(key, value)

    def __delitem__(self, key: bytes) -> None:
        self.on_write(os.fsdecode(key), None)
        super().__delitem__(key)


def watch_variables(observer: Any) -> None:
    """Report every access to an observer from now on."""
    variables = WatchedVariables(variable_values())
    variables.on_read = observer.on_read
    variables.on_read_all = observer.on_read_all
    variables.on_write = observer.on_write
    _replace(variables)


def stop_watching_variables() -> None:
    _replace(dict(variable_values().items()))


def variables_changed_since(before: dict[bytes, bytes]) -> list[str]:
    """Return the variables that have changed, sorted by name."""
    now = variable_values()
    if now == before:
        return []
    names = {*before, *now}
    return sorted(os.fsdecode(name) for name in names if before.get(name) != now.get(name))


def current_variables() -> dict[bytes, bytes]:
    """Return a copy of all variables."""
    return dict(variable_values().items())


def variable_values() -> dict[bytes, bytes]:
    """Return the dictionary in which `os.environ` keeps its values."""
    kept: dict[bytes, bytes] = getattr(os.environ, "_data")  # noqa: B009
    return kept


def _replace(values: dict[bytes, bytes]) -> None:
    setattr(os.environ, "_data", values)  # noqa: B010
    if hasattr(os, "environb"):
        setattr(os.environb, "_data", values)  # noqa: B010
