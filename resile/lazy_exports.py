"""Names of a package that are imported when they are first asked for (PEP 562).

This module lies below all others, imports none of them, and may be imported by each.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping

__all__ = ["lazy_exports"]


def lazy_exports(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A package's ``__getattr__``. ``homes``: the module that each name is imported from."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(homes[name]), name)

    return find
