"""Reports to the agent what a warm worker imports beyond the preloaded modules.

The recorder is the first of the import system's finders, finds nothing and writes each requested
name to the agent's pipe. On the first import of a package it also reports which variables the
process has changed so far: the package may read them. The pipe is opened for each report, through
the nursery's own descriptor, and closed again: otherwise all children of the worker would inherit
it. If a report fails, the recorder removes itself.

Reports are lines of text. Names may contain anything but line breaks. A line is written in one
piece, since writes of up to 4096 bytes to a pipe are atomic.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

from .variables import current_variables, variables_changed_since

_LONGEST = 4000


class Imported(NamedTuple):
    """A module is imported for the first time."""

    name: str


class Changed(NamedTuple):
    """A package is imported for the first time, and these variables have other values than at the
    worker's start."""

    package: str
    variables: tuple[str, ...]


class UnfitPackage(NamedTuple):
    """A package was preloaded that should not have been."""

    package: str
    reason: str


ImportReport = Imported | Changed | UnfitPackage


def imported_line(name: str) -> str:
    return f"{name}\n"


def changed_line(package: str, variables: list[str]) -> str:
    line = "\t".join(["=" + package, *variables])
    # A line that is too long is replaced by "any variable".
    return (line if len(line) < _LONGEST else f"={package}\t*") + "\n"


def unfit_line(package: str, reason: str) -> str:
    return f"!{package}\t{reason}"[:_LONGEST] + "\n"


def parse(line: str) -> ImportReport:
    """Parse one line, without its end."""
    first, *rest = line.split("\t")
    if first.startswith("="):
        return Changed(first[1:], tuple(rest))
    if first.startswith("!"):
        return UnfitPackage(first[1:], " ".join(rest))
    return Imported(first)


class ImportRecorder:
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

    def report_unfit(self, package: str, reason: str) -> None:
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
