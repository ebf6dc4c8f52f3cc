"""Preloaded modules, held back in a worker until the script imports them.

A worker starts with the modules of a fresh interpreter. The modules that the nursery imported are
kept here, and when the script imports one it gets it with everything that importing it would have
loaded, and with the effects of importing it: variables set, warning filters added. So everything
happens in the script's own order.

A module that would be different by now is imported again: when `sys.path` leads elsewhere, or when
a variable that it read has another value. Compiled modules cannot be loaded twice in a process.
They are used nevertheless, and reported to the agent, which does not preload them from the next
start on.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NamedTuple

from .observation import Footprint
from .trusted import is_trusted
from .variables import is_per_worker, variable_values

ReportUnfit = Callable[[str, str], None]
"""Called with a package that should not have been preloaded, and the reason."""


_MAIN_ALIAS = "__mp_main__"
"""The name under which `multiprocessing` lists the main module a second time."""


class _Company(NamedTuple):
    """A module with all modules that importing it loads.

    Attributes:
        names: the modules in the order of loading.
        reads: all variables that they read, and the values they saw, as bytes.
        doers: the modules with effects that have to be repeated.
    """

    names: list[str]
    reads: list[tuple[bytes, bytes | None]]
    doers: list[str]


class DeferredModules:
    """An import finder for modules that are loaded already."""

    def __init__(self, footprints: dict[str, Footprint]) -> None:
        self._footprints = footprints
        self._filters = list(warnings.filters)
        self._modules: dict[str, ModuleType] = {}
        self._companies: dict[str, _Company] = {}
        self._alias = False
        self._paths: list[list[str]] = []
        self._tell: ReportUnfit | None = None

    def prepare(self, baseline: set[str], names: Iterable[str]) -> None:
        """Compute, once for all workers, which modules are loaded with each of these."""
        self._modules = {
            name: module
            for name, module in sys.modules.items()
            if name not in baseline and isinstance(module, ModuleType) and not _is_ours(name)
        }
        # Only `sys.modules` may refer to the main module, or it would be destroyed too late.
        self._alias = self._modules.pop(_MAIN_ALIAS, None) is not None
        for name in names:
            parent = self._companies.get(name.partition(".")[0])
            if name in self._modules and (parent is None or name not in parent.names):
                self._companies[name] = self._company_of(name)

    def hold(self, *, first_path: str | None) -> None:
        """Remove the modules from `sys.modules`, as in a fresh process, and install the finder."""
        for name in (*self._modules, *([_MAIN_ALIAS] if self._alias else [])):
            sys.modules.pop(name, None)
        _set_filters(self._filters)
        self._paths = [list(sys.path), [first_path or "", *sys.path]]
        sys.meta_path.insert(0, self)

    def tell(self, tell: ReportUnfit) -> None:
        """Report packages that should not have been preloaded to `tell` from now on."""
        self._tell = tell

    def has(self, name: str) -> bool:
        return name in self._modules

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not self.has(name):
            return None
        company = self._companies.get(name) or self._company_of(name)
        if not self._is_current(company):
            outdated = self._outdated([each for each in company.names if self.has(each)])
            if outdated and self._drop(outdated):
                return self.find_spec(name, path, target)
        # A caller that only looks for a spec gets the module's own, except for its loader. Copied
        # by hand: an import in this method would recurse without end.
        original = vars(self._modules[name]).get("__spec__")
        spec = ModuleSpec(name, None)
        vars(spec).update(vars(original) if original is not None else {})
        spec.loader = _PreloadedLoader(self, company, spec.loader)  # type: ignore[assignment]
        return spec

    def release(self, company: _Company) -> None:
        """Put modules into `sys.modules`, and repeat the effects of importing them."""
        again = [self._footprints[each] for each in company.doers if self.has(each)]
        # No reference may be left here: at exit the interpreter destroys modules in an order that
        # depends on the references to them.
        modules = self._modules
        sys.modules.update({each: modules.pop(each) for each in company.names if each in modules})
        if self._alias and "multiprocessing" in sys.modules:
            sys.modules.setdefault(_MAIN_ALIAS, sys.modules["__main__"])
        for footprint in again:
            _repeat(footprint)

    def _company_of(self, name: str) -> _Company:
        found = set()
        pending = [name]
        while pending:
            each = pending.pop()
            if each not in found and self.has(each):
                found.add(each)
                pending.extend(self._needs(each))
        names = [each for each in self._modules if each in found]
        reads = {}
        doers = []
        for each in names:
            footprint = self._footprints.get(each)
            if footprint is not None:
                reads.update(_relevant_reads(each, footprint))
                if footprint.writes or footprint.filters:
                    doers.append(each)
        return _Company(names, list(_encoded(reads)), doers)

    def _is_current(self, company: _Company) -> bool:
        """Whether nothing has changed that any of these depends on."""
        variables = variable_values()
        if any(variables.get(name) != value for name, value in company.reads):
            return False
        return sys.path in self._paths

    def _needs(self, name: str) -> list[str]:
        footprint = self._footprints.get(name)
        # Loaded before the observation began: its own names show what it imported.
        needs = _sources(self._modules[name]) if footprint is None else footprint.needs
        return [*needs, name.rpartition(".")[0]]

    def _outdated(self, names: Iterable[str]) -> dict[str, str]:
        """Return the modules among these that would be different if imported now, and why."""
        outdated = {}
        for name in names:
            reason = self._reads_other_value(name)
            if reason:
                outdated[name] = reason
        if sys.path in self._paths:
            return outdated
        for package in {name.partition(".")[0] for name in names}:
            if self._is_found_elsewhere(package):
                below = [
                    name
                    for name in self._modules
                    if name.partition(".")[0] == package and self.has(name)
                ]
                outdated.update(dict.fromkeys(below, "sys.path, which the script changes"))
        return outdated

    def _reads_other_value(self, name: str) -> str:
        footprint = self._footprints.get(name)
        if footprint is not None:
            for variable, value in _relevant_reads(name, footprint).items():
                if os.environ.get(variable) != value:
                    return f"${variable}, which the script sets before"
        return ""

    def _is_found_elsewhere(self, package: str) -> bool:
        module = self._modules.get(package)
        known = vars(module).get("__spec__") if module is not None else None
        if known is None or known.origin in ("built-in", "frozen"):
            return False
        for finder in list(sys.meta_path):
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(package, None)
            if spec is not None:
                return bool(_location(spec) != _location(known))
        return True

    def _drop(self, outdated: dict[str, str]) -> bool:
        """Drop modules, and those that depend on them; return whether that was possible."""
        dropped = self._with_dependents(outdated)
        native = {name.partition(".")[0] for name in dropped if self._is_native(name)}
        if native:
            for package in native:
                self._say(package, f"depends on {next(iter(outdated.values()))}")
            return False
        for name in dropped:
            self._modules.pop(name, None)
        self._companies.clear()
        return True

    def _say(self, package: str, reason: str) -> None:
        if self._tell is not None:
            self._tell(package, reason)

    def _with_dependents(self, names: Iterable[str]) -> set[str]:
        found = set(names)
        grown = True
        while grown:
            more = {
                name
                for name in self._modules
                if self.has(name) and not found.isdisjoint(self._needs(name))
            }
            grown = not more <= found
            found |= more
        return found

    def _is_native(self, name: str) -> bool:
        footprint = self._footprints.get(name)
        return footprint is not None and footprint.is_native


class _PreloadedLoader:
    """Stands in for the loader of a module that is loaded already.

    The import system creates an empty module, which is discarded: it returns the module that it
    finds in `sys.modules` afterwards. The real one, which may be lazy, is not touched.
    """

    def __init__(self, modules: DeferredModules, company: _Company, loader: Any) -> None:
        self._modules = modules
        self._company = company
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        self._modules.release(self._company)


def _relevant_reads(name: str, footprint: Footprint) -> dict[str, str | None]:
    """Return the variables on which a module depends. A trusted one may read the worker's place
    (see `trusted`)."""
    if not is_trusted(name):
        return footprint.reads
    return {name: value for name, value in footprint.reads.items() if not is_per_worker(name)}


def _encoded(reads: dict[str, str | None]) -> Iterator[tuple[bytes, bytes | None]]:
    for name, value in reads.items():
        yield os.fsencode(name), None if value is None else os.fsencode(value)


def _repeat(footprint: Footprint) -> None:
    """Repeat, in a worker, the effects that a module had when it was imported."""
    for variable, value in footprint.writes.items():
        if value is None:
            os.environ.pop(variable, None)
        else:
            os.environ[variable] = value
    if footprint.filters:
        _set_filters([*footprint.filters, *warnings.filters])


def _set_filters(filters: Sequence[Any]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]


def _sources(module: ModuleType) -> set[str]:
    """Return the modules that a module's own names come from."""
    sources = set()
    for value in list(vars(module).values()):
        name = vars(value).get("__name__") if isinstance(value, ModuleType) else None
        sources.add(name or getattr(type(value), "__module__", None) or "")
    return sources


def _location(spec: ModuleSpec) -> object:
    return spec.origin or list(spec.submodule_search_locations or ())


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] == "_resile_nursery"
