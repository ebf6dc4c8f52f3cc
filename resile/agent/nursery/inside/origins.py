"""Tells modules of installed libraries from the user's own.

A library may be imported once for all workers. The user's own files must be read again by each
worker, because they may change between two restarts. Libraries are: modules built into the
interpreter, its standard library, everything in a `site-packages` or `dist-packages` folder, and
folders that are explicitly trusted. A package under development (`pip install -e`) is elsewhere and
therefore counts as the user's own.
"""

import os
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, all_suffixes

_STANDARD_LIBRARY = os.path.dirname(os.path.abspath(os.__file__))
_INSTALLED = {"site-packages", "dist-packages"}


class ModuleOrigins:
    """Classifies modules by their location."""

    def __init__(self, *, trusted: list[str], first_path: str | None) -> None:
        self._roots = [os.path.join(root, "") for root in (_STANDARD_LIBRARY, *trusted)]
        self._first_path = first_path

    def is_library(self, spec: ModuleSpec) -> bool:
        """Whether a module found by the import system belongs to a library."""
        if spec.origin in ("built-in", "frozen"):
            return True
        if spec.has_location and spec.origin is not None:
            return self._is_installed(spec.origin)
        places = list(spec.submodule_search_locations or ())
        return bool(places) and all(self._is_installed(place) for place in places)

    def shadowed(self, names: set[str]) -> str | None:
        """Return a top-level module among these that one of the user's files would have replaced.

        In a fresh process the script's folder comes first on `sys.path`; a `random.py` there hides
        the standard `random`.
        """
        if self._first_path is None:
            return None
        try:
            entries = os.listdir(self._first_path or os.curdir)
        except OSError:
            return None
        for entry in entries:
            stem = entry.partition(".")[0]
            if stem in names and self._is_module(entry):
                return stem
        return None

    def _is_module(self, entry: str) -> bool:
        if entry.endswith(tuple(all_suffixes())):
            return True
        folder = os.path.join(self._first_path or os.curdir, entry)
        suffixes = (".py", ".pyc", *EXTENSION_SUFFIXES)
        return any(os.path.isfile(os.path.join(folder, "__init__" + end)) for end in suffixes)

    def _is_installed(self, path: str) -> bool:
        return holds_packages(path) or any(path.startswith(root) for root in self._roots)


def holds_packages(path: str) -> bool:
    """Whether a path is in a folder into which packages are installed."""
    return not _INSTALLED.isdisjoint(path.split(os.sep))


def top_levels(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} - {"__main__"}
