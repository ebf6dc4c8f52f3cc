"""What a worker reports to the agent about its imports: lines of text on a pipe.

The names that a worker gives may hold anything but line breaks; a line that cannot be understood is
passed over. Lines are written whole, since a pipe takes up to 4096 bytes in one piece.
"""

from typing import NamedTuple

_LONGEST = 4000


class Imported(NamedTuple):
    """A module is imported for the first time."""

    name: str


class Changed(NamedTuple):
    """A package is imported for the first time, when these variables have other values than the
    worker was started with."""

    package: str
    variables: tuple[str, ...]


class UnfitPackage(NamedTuple):
    """A package was preloaded and should not have been."""

    package: str
    reason: str


Report = Imported | Changed | UnfitPackage


def imported_line(name: str) -> str:
    return f"{name}\n"


def changed_line(package: str, variables: list[str]) -> str:
    line = "\t".join(["=" + package, *variables])
    # One that does not fit is as good as any: what was changed is not known.
    return (line if len(line) < _LONGEST else f"={package}\t*") + "\n"


def unfit_line(package: str, reason: str) -> str:
    return f"!{package}\t{reason}"[:_LONGEST] + "\n"


def parse(line: str) -> Report:
    """Understand one line, without its end."""
    first, *rest = line.split("\t")
    if first.startswith("="):
        return Changed(first[1:], tuple(rest))
    if first.startswith("!"):
        return UnfitPackage(first[1:], " ".join(rest))
    return Imported(first)
