"""Preloading: imports the modules that the script will import, once for all workers.

An import that fails here is skipped: the worker will try it again and report the failure itself. An
import here must not change what a worker sees, so the user's own modules are never imported, and
side effects of a module are traced back to it (see `observation`).

Random generators are reseeded in workers: a fork copies them, fresh processes seed them
differently. Python's own `random` reseeds itself in a forked child. numpy's global state and
torch's default CPU generator are seeded by the operating system when they are first loaded, so each
worker reseeds them, unless a preloaded library seeded them on purpose. (torch's generators for
accelerators start from a constant, in every process.) multiprocessing draws a process's
authentication key when it is loaded; workers must not share one.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .deferred import DeferredModules
from .fork_safety import ForkUnsafe, check_after_trial_fork, check_fork_safety
from .observation import Observer, awaiting_modules, with_importers
from .origins import ModuleOrigins, top_levels
from .protocol import PreloadRequest, PreloadResult


class RandomSeeds:
    """Records in the nursery which generators are still seeded by the operating system."""

    def __init__(self) -> None:
        self._torch: int | None = None

    def note(self) -> None:
        """Record torch's seed as soon as torch is loaded; a later one was set on purpose."""
        generator = _torch_generator()
        if self._torch is None and generator is not None:
            self._torch = generator.initial_seed()

    def renew(self) -> None:
        """Reseed, in a worker, the generators that a fresh process seeds by itself."""
        numpy_state: Any = getattr(sys.modules.get("numpy.random.mtrand"), "_rand", None)
        # An explicit seed drops the sequence: every process is then meant to start with that seed.
        if getattr(getattr(numpy_state, "_bit_generator", None), "seed_seq", None) is not None:
            numpy_state.seed()
        generator = _torch_generator()
        if generator is not None and generator.initial_seed() == self._torch:
            generator.seed()
        process = sys.modules.get("multiprocessing.process")
        if process is not None:
            process.current_process().authkey = os.urandom(32)


def _torch_generator() -> Any:
    return getattr(sys.modules.get("torch"), "default_generator", None)


class PreloadedModules:
    """The modules that a nursery has imported, and whether workers may still be forked."""

    def __init__(self, prepare: PreloadRequest, baseline: set[str]) -> None:
        self._baseline = baseline
        self._first_path = prepare.first_path
        self._libraries_only = prepare.libraries_only
        self._awaited = [*prepare.awaited] if prepare.libraries_only else []
        self._origins = ModuleOrigins(trusted=prepare.trusted, first_path=prepare.first_path)
        self._observer = Observer(self._origins if prepare.libraries_only else None)
        self._deferred = DeferredModules(self._observer.footprints)
        self._hidden: dict[str, bool] = {}
        self._top_levels: set[str] = set()
        self.seeds = RandomSeeds()

    def load(self, names: Sequence[str], announce: Callable[[str], None]) -> PreloadResult:
        """Import these modules and return the result."""
        loaded: list[str] = []
        passed_over: list[str] = []
        with self._observer:
            for name in _with_parents(names):
                if name not in sys.modules and self._is_wanted(name):
                    announce(name)
                    self._import(name)
                (loaded if name in sys.modules else passed_over).append(name)
        unfit, culprits, awaiting = self._judge()
        if not unfit:
            self._deferred.prepare(self._baseline, loaded)
        return PreloadResult(loaded, passed_over, "torch" in sys.modules, unfit, culprits, awaiting)

    def defer(self) -> DeferredModules:
        """In a worker: hold the modules back until the script imports them."""
        self._deferred.hold(first_path=self._first_path)
        return self._deferred

    def reason_against(self) -> str:
        """Return why a worker must not be forked now; empty if it may."""
        shadowed = self._origins.shadowed(self._top_levels)
        if shadowed is not None:
            return f"the script's folder has a module {shadowed!r} that hides a library's"
        try:
            check_fork_safety()
        except ForkUnsafe as unfit:
            return f"the nursery {unfit}"
        return ""

    def _import(self, name: str) -> None:
        """Import a module and record torch's seed."""
        try:
            importlib.import_module(name)
        except BaseException:
            # A library may raise anything, SystemExit included. The worker will see it itself.
            pass
        self.seeds.note()

    def _judge(self) -> tuple[str, dict[str, str], dict[str, str]]:
        """Return why this process cannot be forked (empty if it can), the modules to blame, and
        those that have imported a package which only the script may import."""
        self._top_levels = top_levels(set(sys.modules) - self._baseline)
        unfit, culprits = "", {}
        try:
            check_after_trial_fork()
        except ForkUnsafe as error:
            unfit = f"it {error}"
            culprits = dict.fromkeys(self._observer.threads.get(error.thread, ()), unfit)
        if self._libraries_only:
            effects = {name: f"it {deed}" for name, deed in self._observer.effects.items()}
            culprits = with_importers({**culprits, **effects}, self._observer.footprints)
            unfit = unfit or next(iter(effects.values()), "")
        awaiting = awaiting_modules(self._awaited, self._observer.footprints)
        for module, package in awaiting.items():
            unfit = unfit or f"{module} imports {package}, which the script has to import itself"
        return unfit, culprits, awaiting

    def _is_wanted(self, name: str) -> bool:
        if not self._libraries_only:
            return True
        parent = name.rpartition(".")[0]
        if parent and parent not in sys.modules:
            return False
        if self._is_hidden(name.partition(".")[0]):
            return False
        spec = _find(name)
        return spec is not None and self._origins.is_library(spec)

    def _is_hidden(self, top_level: str) -> bool:
        if top_level not in self._hidden:
            self._hidden[top_level] = self._origins.shadowed({top_level}) is not None
        return self._hidden[top_level]


class CpuThrottle:
    """A finder that finds nothing and sleeps before each module, to limit the CPU share.

    A lower priority would do the same, but an unprivileged process cannot raise it again, and every
    worker forked later would inherit it.
    """

    def __init__(self, share: float) -> None:
        self._rest = 1.0 / share - 1.0
        self._used = time.process_time()

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> None:
        time.sleep((time.process_time() - self._used) * self._rest)
        self._used = time.process_time()


def warm_up(
    prepare: PreloadRequest, *, baseline: set[str], announce: Callable[[str], None]
) -> tuple[PreloadedModules, PreloadResult]:
    """Import all requested modules, and make the process cheap to fork."""
    preloaded = PreloadedModules(prepare, baseline)
    # When asked for CUDA devices, torch opens the driver, which does not survive a fork, unless
    # this variable makes it ask the management library.
    os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    pacers = [CpuThrottle(prepare.share)] if prepare.share < 1.0 else []
    sys.meta_path[:0] = pacers
    # Not `gc.disable`: if a library calls it, that must be noticed.
    thresholds = gc.get_threshold()
    gc.set_threshold(0)
    try:
        ready = preloaded.load(prepare.preload or [], announce)
    finally:
        for pacer in pacers:
            sys.meta_path.remove(pacer)
    # A fresh interpreter has not searched any folder yet. Done here and not in each worker, where
    # freeing memory means copying its pages.
    sys.path_importer_cache.clear()
    gc.collect()
    # A collection in a waiting child would write into every page that holds an object. A worker
    # gets them back in the oldest generation, where a fresh process has the modules it imported.
    gc.freeze()
    if gc.get_threshold()[0] == 0:
        gc.set_threshold(*thresholds)
    for stream in (sys.__stdout__, sys.__stderr__):
        if stream is not None:
            stream.flush()
    return preloaded, ready


def _with_parents(names: Sequence[str]) -> Iterator[str]:
    seen = set()
    for name in names:
        parts = name.split(".")
        for length in range(1, len(parts) + 1):
            prefix = ".".join(parts[:length])
            if prefix not in seen:
                seen.add(prefix)
                yield prefix


def _find(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
