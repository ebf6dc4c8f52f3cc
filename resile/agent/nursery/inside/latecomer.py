"""A fallback import finder in workers, for modules whose names and files are given by a variable.

It is the last of the import system's finders, so that the user's own module of that name, or an
installed one, always wins. It knows only paths: nothing is imported before a script asks for it.
The caller that starts the agent sets the variable, and it is removed before the script runs.
"""

import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

VARIABLE = "RESILE_LATE_MODULES"


class Latecomer:
    """Finds the given modules in the given files."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if name not in self._files:
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(name, self._files[name])


def late_modules(files: Mapping[str, str]) -> dict[str, str]:
    """Return the variable by which workers find modules, by name, in these files."""
    return {VARIABLE: os.pathsep.join(f"{name}={file}" for name, file in files.items())}


def come_last(environ: MutableMapping[str, str]) -> None:
    """In a worker: install the finder behind all others, if the environment names modules."""
    given = environ.pop(VARIABLE, "")
    files = dict(one.split("=", 1) for one in given.split(os.pathsep) if "=" in one)
    if files:
        sys.meta_path.append(Latecomer(files))
