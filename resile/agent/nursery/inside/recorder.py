"""What a warm worker imports beyond what it was born with, told to the agent.

The recorder stands first among the import system's finders, finds nothing and writes each name it
is asked for to the agent's pipe. The first time that a package is asked for it also tells which
variables the process has changed so far: the package may read them. The pipe is opened for each
report, through the nursery's own descriptor, and closed again: a worker that kept it open would
hand it on to all its children. A report that cannot be made is dropped, silently and for good.
"""

import os
import sys
from collections.abc import Sequence
from types import ModuleType

from .environment_reads import changed_since, current
from .reports import changed_line, imported_line, unfit_line


class Recorder:
    """Reports the names of modules as they are first imported."""

    def __init__(self, nursery: int, descriptor: int) -> None:
        self._pipe = f"/proc/{nursery}/fd/{descriptor}"
        self._told: set[str] = set()
        self._packages: set[str] = set()
        self._variables = current()

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
            lines += changed_line(package, changed_since(self._variables))
        self._tell(lines)

    def tell_of_unfit(self, package: str, reason: str) -> None:
        """Report that a package should not have been preloaded."""
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
