"""Finds packages whose import may depend on an environment variable that the script sets.

Reads of `os.environ` by Python code are observed in the nursery, but compiled code reads variables
through the C library. It has their names in its files, so a package whose files do not mention a
variable does not read it. A mention proves nothing; to be safe, the package is then imported by the
script itself.
"""

import importlib.util
import mmap
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

ANY = "*"
"""Stands for variables whose names are not known."""

_CODE = re.compile(r"\.(py|so|pyd|dylib)$|\.so\.[0-9.]+$")
_WORD = re.compile(rb"[A-Za-z0-9_]")


def mentioned(package: str, variables: Collection[str]) -> list[str]:
    """Return the variables that occur in a package's files, sorted by name."""
    found = {name for name in variables if name == ANY}
    sought = {name for name in variables if name != ANY}
    for path in _files(package) if sought else ():
        found |= _mentioned_in(path, [name for name in sought if name not in found])
        if sought <= found:
            break
    return sorted(found)


def is_installed(package: str) -> bool:
    """Whether a top-level module is installed."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):
        return False


def _files(package: str) -> Iterator[Path]:
    """Yield the code files of a package and of the libraries bundled with it."""
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    places = [Path(place) for place in spec.submodule_search_locations or ()]
    if not places and spec.has_location and spec.origin:
        yield Path(spec.origin)
    for place in [*places, *(place.with_name(f"{place.name}.libs") for place in places)]:
        for folder, _, names in os.walk(place):
            yield from (Path(folder, name) for name in names if _CODE.search(name))


def _mentioned_in(path: Path, names: list[str]) -> set[str]:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as text:
            return {name for name in names if _has_word(text, os.fsencode(name))}
    except (OSError, ValueError):
        # Empty, or not readable.
        return set()


def _has_word(text: mmap.mmap, word: bytes) -> bool:
    at = text.find(word)
    while at >= 0:
        before, after = text[max(0, at - 1) : at], text[at + len(word) : at + len(word) + 1]
        if not _WORD.match(before) and not _WORD.match(after):
            return True
        at = text.find(word, at + 1)
    return False
