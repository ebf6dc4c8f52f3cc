"""Which variables a module reads from `os.environ`, and which it puts there, while it is imported.

`os.environ` keeps its values in a dictionary of bytes. For as long as modules are watched that
dictionary is one that tells of every access. What C code asks of the C library is not seen here.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any


class WatchedVariables(dict[bytes, bytes]):
    """The values of `os.environ`, with a call for each access.

    Attributes:
        on_read: called with a variable and its value, `None` if it is not set.
        on_read_all: called when all variables are gone through.
        on_write: called with a variable and its new value, `None` if it is taken away.
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


def watch(observer: Any) -> None:
    """Tell an observer of every access from now on."""
    variables = WatchedVariables(values())
    variables.on_read = observer.on_read
    variables.on_read_all = observer.on_read_all
    variables.on_write = observer.on_write
    _replace(variables)


def stop_watching() -> None:
    _replace(dict(values().items()))


def changed_since(before: dict[bytes, bytes]) -> list[str]:
    """Return the variables that are not what they were, in order of their names."""
    now = values()
    if now == before:
        return []
    names = {*before, *now}
    return sorted(os.fsdecode(name) for name in names if before.get(name) != now.get(name))


def current() -> dict[bytes, bytes]:
    """Return a copy of all variables."""
    return dict(values().items())


def values() -> dict[bytes, bytes]:
    """Return the dictionary in which `os.environ` keeps its values."""
    kept: dict[bytes, bytes] = getattr(os.environ, "_data")  # noqa: B009
    return kept


def _replace(values: dict[bytes, bytes]) -> None:
    setattr(os.environ, "_data", values)  # noqa: B010
    if hasattr(os, "environb"):
        setattr(os.environb, "_data", values)  # noqa: B010
