"""The reports of a worker to the agent about its imports: lines of text on a pipe.

Names may contain anything but line breaks. A line is written in one piece, since writes of up to
4096 bytes to a pipe are atomic.
"""

from typing import NamedTuple

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


Report = Imported | Changed | UnfitPackage


def imported_line(name: str) -> str:
    return f"{name}\n"


def changed_line(package: str, variables: list[str]) -> str:
    line = "\t".join(["=" + package, *variables])
    # A line that is too long is replaced by "any variable".
    return (line if len(line) < _LONGEST else f"={package}\t*") + "\n"


def unfit_line(package: str, reason: str) -> str:
    return f"!{package}\t{reason}"[:_LONGEST] + "\n"


def parse(line: str) -> Report:
    """Parse one line, without its end."""
    first, *rest = line.split("\t")
    if first.startswith("="):
        return Changed(first[1:], tuple(rest))
    if first.startswith("!"):
        return UnfitPackage(first[1:], " ".join(rest))
    return Imported(first)
