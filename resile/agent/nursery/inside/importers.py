"""The graph of imports: what is held against a module is held against all that import it.

A module that was there already when another asked for it did nothing at that time. Yet if it stays
out, importing the other would load it. So blame goes along every import that was seen, and one
attempt tells of all modules that have to stay out, however many ways lead to the culprit.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping

from .observation import Footprint


def with_importers(
    culprits: Mapping[str, str], footprints: Mapping[str, Footprint]
) -> dict[str, str]:
    """Return modules with what each does, and all that import one of them, with why."""
    importers = _importers(footprints)
    found = dict(culprits)
    pending = list(culprits)
    while pending:
        name = pending.pop()
        reason = _passed_on(name, found[name])
        for importer in importers.get(name, ()):
            if importer not in found:
                found[importer] = reason
                pending.append(importer)
    return found


def awaiting(packages: Iterable[str], footprints: Mapping[str, Footprint]) -> dict[str, str]:
    """Return the modules outside of these packages that import one of them, with which."""
    found: dict[str, str] = {}
    for package in packages:
        if package in sys.modules:
            for name in with_importers({package: ""}, footprints):
                if name.partition(".")[0] != package:
                    found.setdefault(name, package)
    return found


def _importers(footprints: Mapping[str, Footprint]) -> dict[str, dict[str, None]]:
    """Return for each module those that import it, or a part of it."""
    importers: dict[str, dict[str, None]] = {}
    for name, footprint in footprints.items():
        for need in footprint.needs:
            for each in with_parents(need):
                if each != name:
                    importers.setdefault(each, {})[name] = None
    return importers


def with_parents(name: str) -> Iterator[str]:
    """Yield a module and the packages that it is in, the outermost last."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _passed_on(name: str, reason: str) -> str:
    if reason.startswith("it imports "):
        return reason
    return f"it imports {name}, which {reason.removeprefix('it ')}"
