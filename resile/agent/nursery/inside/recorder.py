"""Reports to the agent what a warm worker imports beyond the preloaded modules.

The recorder is the first of the import system's finders, finds nothing and writes each requested
name to the agent's pipe. On the first import of a package it also reports which variables the
process has changed so far: the package may read them. The pipe is opened for each report, through
the nursery's own descriptor, and closed again: otherwise all children of the worker would inherit
it. If a report fails, the recorder removes itself.
"""

import os
import sys
from collections.abc import Sequence
from types import ModuleType

from .environment_reads import current_variables, variables_changed_since
from .reports import changed_line, imported_line, unfit_line


class Recorder:
    """Reports the names of modules as they are first imported."""

    def __init__(self, nursery: int, descriptor: int) -> None:
        self._pipe = f"/proc/{nursery}/fd/{descriptor}"
        self._told: set[str] = set()
        self._packages: set[str] = set()
        self._variables = current_variables()

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> None:
        if name in self._told:
            return
        self._told.add(name)
        package = name.partition(".")[0]
        lines = imported_line(name)
        if package not in self._packages:
            self._packages.add(package)
            lines += changed_line(package, variables_changed_since(self._variables))
        self._tell(lines)

    def tell_of_unfit(self, package: str, reason: str) -> None:
        """Report a package that should not have been preloaded."""
        self._tell(unfit_line(package, reason))

    def _tell(self, lines: str) -> None:
        try:
            pipe = os.open(self._pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                os.write(pipe, lines.encode())
            finally:
                os.close(pipe)
        except (OSError, UnicodeError):
            if self in sys.meta_path:
                sys.meta_path.remove(self)
