"""The graph of imports: a module that must not be preloaded excludes all that import it.

A module that was already loaded when another imported it had no effect at that time. Yet if it is
excluded, importing the other would load it. So the blame is passed on along every observed import,
and one attempt finds all modules that have to be excluded, however many paths lead to the culprit.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping

from .observation import Footprint


def with_importers(
    culprits: Mapping[str, str], footprints: Mapping[str, Footprint]
) -> dict[str, str]:
    """Return the culprits with what each does, and all modules that import one, with the reason."""
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


def awaiting_modules(
    packages: Iterable[str], footprints: Mapping[str, Footprint]
) -> dict[str, str]:
    """Return the modules outside of these packages that import one of them, with its name."""
    found: dict[str, str] = {}
    for package in packages:
        if package in sys.modules:
            for name in with_importers({package: ""}, footprints):
                if name.partition(".")[0] != package:
                    found.setdefault(name, package)
    return found


def _importers(footprints: Mapping[str, Footprint]) -> dict[str, dict[str, None]]:
    """Return for each module those that import it, or a submodule of it."""
    importers: dict[str, dict[str, None]] = {}
    for name, footprint in footprints.items():
        for need in footprint.needs:
            for each in with_parents(need):
                if each != name:
                    importers.setdefault(each, {})[name] = None
    return importers


def with_parents(name: str) -> Iterator[str]:
    """Yield a module and the packages that contain it, the outermost last."""
    while name:
        yield name
        name = name.rpartition(".")[0]


def _passed_on(name: str, reason: str) -> str:
    if reason.startswith("it imports "):
        return reason
    return f"it imports {name}, which {reason.removeprefix('it ')}"
