"""Serves modules in workers when nobody else does: their names and files are given by a variable.

The finder stands last among the import system's, so that a module of that name of the user's, or an
installed one, always wins. It knows only paths: nothing is imported before a script asks. Whoever
starts the agent says which modules these are; nobody sees the variable later.
"""

import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

VARIABLE = "RESILE_LATE_MODULES"


class Latecomer:
    """The finder."""

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
    """The variable that has workers find modules, by name, in these files."""
    return {VARIABLE: os.pathsep.join(f"{name}={file}" for name, file in files.items())}


def come_last(environ: MutableMapping[str, str]) -> None:
    """In a worker: stand behind all finders there are, if the environment names modules."""
    given = environ.pop(VARIABLE, "")
    files = dict(one.split("=", 1) for one in given.split(os.pathsep) if "=" in one)
    if files:
        sys.meta_path.append(Latecomer(files))
