"""Observes the side effects of importing a module, while the nursery imports it.

A module may be preloaded only if the script cannot tell the difference. So every module is observed
while it runs: which variables it reads and writes, what it imports, whether it opens files, starts
threads or processes, draws random numbers or changes process-wide settings. An effect of a module
is attributed to it and to all modules that were importing it, since preloading any of these would
have the same effect. Effects of trusted modules (see `trusted`) are ignored.

A module that was already loaded when another imported it had no effect at that time. Yet if it is
excluded, importing the other would load it. So the blame is passed on along every observed import,
and one attempt finds all modules that have to be excluded, however many paths lead to the culprit.

The import system is observed by wrapping three of its functions. They are restored when all modules
are imported: nothing of this is left in a worker.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import _bootstrap
from types import TracebackType
from typing import Any

from .effects import INSTRUMENTS, MakeWrapper, ReportEffect, changes, process_settings
from .fork_safety import has_children, kernel_threads
from .origins import ModuleOrigins
from .trusted import is_trusted
from .variables import is_per_worker, stop_watching_variables, watch_variables

_OURS = frozenset({"PYTORCH_NVML_BASED_CUDA_CHECK"})
"""Variables that the nursery sets for itself."""

_INHERITED = object()
"""Marks an attribute that a class inherits from its base."""


class Footprint:
    """The recorded effects of importing one module.

    Attributes:
        needs: modules that it imported, whether they were loaded already or not.
        reads: variables with the values it saw, `None` for one that was not set.
        writes: variables that it set, or removed (`None`).
        filters: entries that it put at the front of the list of warning filters.
        is_native: whether it is compiled, so that a process can load it only once.
    """

    def __init__(self, *, is_native: bool) -> None:
        self.needs: dict[str, None] = {}
        self.reads: dict[str, str | None] = {}
        self.writes: dict[str, str | None] = {}
        self.filters: list[Any] = []
        self.is_native = is_native


class Observer:
    """A context manager that observes imports."""

    def __init__(self, origins: ModuleOrigins | None = None) -> None:
        self._origins = origins
        self._stack: list[str] = []
        self._settings: dict[str, object] | None = None
        self._filters: list[Any] = []
        self._known: set[str] = set()
        self._written: set[str] = set()
        self._originals: dict[tuple[Any, str], Any] = {}
        self.footprints: dict[str, Footprint] = {}
        self.effects: dict[str, str] = {}
        self.threads: dict[str, list[str]] = {}

    def __enter__(self) -> Observer:
        self._known = set(sys.modules)
        self._filters = _warning_filters()
        watch_variables(self)
        self._stand_in(_bootstrap, "_load_unlocked", self._load)
        self._stand_in(_bootstrap, "_find_and_load", self._find_and_load)
        self._stand_in(builtins, "__import__", self._import)
        for owner, name, make in INSTRUMENTS:
            self._stand_in(owner, name, partial(_made, make, self.blame))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for (owner, name), original in self._originals.items():
            if original is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        stop_watching_variables()

    def blame(self, deed: str) -> None:
        """Attribute an effect to the module that runs now, and to all that are importing it."""
        if not self._stack or is_trusted(self._stack[-1]):
            return
        doer = self._stack[-1]
        for name in self._stack:
            self.effects.setdefault(name, deed if name == doer else f"imports {doer}, which {deed}")

    def on_read(self, variable: str, value: str | None) -> None:
        if not self._stack:
            return
        if variable not in self._written and variable not in _OURS:
            self.footprints[self._stack[-1]].reads.setdefault(variable, value)
        if is_per_worker(variable):
            self.blame(f"reads ${variable}")

    def on_read_all(self) -> None:
        self.blame("reads the whole environment")

    def on_write(self, variable: str, value: str | None) -> None:
        if self._stack:
            self._written.add(variable)
            self.footprints[self._stack[-1]].writes[variable] = value

    def _stand_in(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name)
        self._originals[owner, name] = vars(owner).get(name, _INHERITED)
        setattr(owner, name, make(original))

    def _load(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def load(spec: Any) -> Any:
            self._begin(spec)
            try:
                return original(spec)
            finally:
                self._end()

        return load

    def _find_and_load(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def find_and_load(name: str, *rest: Any) -> Any:
            self._need(name)
            return original(name, *rest)

        return find_and_load

    def _import(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def stand_in(
            name: str,
            globals: Any = None,
            locals: Any = None,
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> Any:
            module = original(name, globals, locals, fromlist, level)
            if self._stack:
                self._need_statement(name, module, fromlist or (), level)
            return module

        return stand_in

    def _need_statement(self, name: str, module: Any, names: Sequence[str], level: int) -> None:
        """Record the modules that an import statement names."""
        if not level:
            self._need(name)
        if names and isinstance(getattr(module, "__name__", None), str):
            self._need(module.__name__)
            for part in names:
                if f"{module.__name__}.{part}" in sys.modules:
                    self._need(f"{module.__name__}.{part}")

    def _need(self, name: str) -> None:
        if self._stack and name != self._stack[-1]:
            self.footprints[self._stack[-1]].needs[name] = None

    def _begin(self, spec: Any) -> None:
        self._look()
        self._need(spec.name)
        native = type(spec.loader).__name__ == "ExtensionFileLoader"
        self.footprints[spec.name] = Footprint(is_native=native)
        self._known.add(spec.name)
        self._stack.append(spec.name)
        self._prepare_to_look()
        if self._origins is not None and spec.has_location and not self._origins.is_library(spec):
            self._blame_all(f"loads {spec.name!r}, which is not an installed library")

    def _end(self) -> None:
        self._look()
        if len(sys.modules) != len(self._known):
            for name in set(sys.modules) - self._known:
                self._need(name)
            self._known = set(sys.modules)
        self._stack.pop()
        self._prepare_to_look()

    def _prepare_to_look(self) -> None:
        """Record the settings for the next comparison, if a trusted module ran before."""
        if self._settings is None and self._stack and not is_trusted(self._stack[-1]):
            self._settings = process_settings()

    def _look(self) -> None:
        """Attribute changes since the last call to the module that runs now."""
        if not self._stack:
            self._settings, self._filters = None, _warning_filters()
            return
        self._look_at_filters()
        for thread in kernel_threads():
            self.threads.setdefault(thread, list(self._stack))
        if is_trusted(self._stack[-1]):
            self._settings = None
            return
        settings = process_settings()
        for deed in changes(self._settings or settings, settings):
            self.blame(deed)
        if has_children():
            self.blame("starts another process")
        self._settings = settings

    def _look_at_filters(self) -> None:
        filters = _warning_filters()
        added = len(filters) - len(self._filters)
        if added > 0 and filters[added:] == self._filters:
            footprint = self.footprints[self._stack[-1]]
            footprint.filters[:0] = filters[:added]
        elif filters != self._filters:
            self.blame("changes the filters of warnings")
        self._filters = filters

    def _blame_all(self, deed: str) -> None:
        for name in self._stack:
            self.effects.setdefault(name, deed)


def _made(make: MakeWrapper, tell: ReportEffect, original: Any) -> Any:
    return make(original, tell)


def _warning_filters() -> list[Any]:
    # The list that both the C and the Python part use; it exists before `warnings` is loaded.
    import _warnings

    return list(_warnings.filters)


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
