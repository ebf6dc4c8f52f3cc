"""The preparation of every Python worker before its script runs, warm or cold.

The fallback finder is the last of the import system's finders, for modules whose names and files
are given by a variable. The user's own module of that name, or an installed one, always wins. It
knows only paths: nothing is imported before a script asks for it. The caller that starts the agent
sets the variable, and it is removed before the script runs.

The exit report is the state of a process at its exit, written to a file: for comparing warm and
cold workers. It is requested by a variable, which is removed as well, and written by the first
registered exit function, which is the last one to run. It holds values that are equal in any two
processes that ran the same script, so addresses and numbers are left out.

A cold worker is started with the hook's folder at the front of PYTHONPATH, as a nursery is; the
hook removes it before the script can see it. This module is imported in every cold worker, so it
imports as little as it can.
"""

import os
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Other modules are imported where they are needed: those imported here appear in the report.

EXIT_REPORT_VARIABLE = "RESILE_EXIT_REPORT"

_OURS = ("DeferredModules", "ImportRecorder", "FallbackFinder")


def report_at_exit(environ: MutableMapping[str, str]) -> None:
    """Write a report when this process exits, if its environment requests one."""
    path = environ.pop(EXIT_REPORT_VARIABLE, "")
    if path:
        import atexit

        atexit.register(_write, path, os.getpid())


def _write(path: str, pid: int) -> None:
    if os.getpid() != pid:
        return
    # First, since everything below imports more.
    modules = {name: _origin(module) for name, module in sorted(sys.modules.items())}
    import gc
    import json

    report = {
        "environment": dict(os.environ),
        "modules": modules,
        "module search path": list(sys.path),
        "open descriptors": _descriptors(),
        "random generators": _generators(),
        "logging": _logging(),
        "warning filters": [_plain(entry) for entry in _warning_filters()],
        "signal handlers": _signals(),
        "garbage collector": [str(gc.isenabled()), str(gc.get_threshold())],
        "finders of modules": [_plain(each) for each in sys.meta_path if not _is_ours(each)],
    }
    with open(path, "w") as file:
        json.dump(report, file)


def _there(name: str) -> Any:
    return sys.modules.get(name)


def _warning_filters() -> list[Any]:
    """The active filters, also where ``warnings`` is not imported yet."""
    import _warnings

    return list((_there("warnings") or _warnings).filters)


def _origin(module: Any) -> str:
    return str(getattr(getattr(module, "__spec__", None), "origin", None))


def _plain(value: object) -> str:
    import re

    return re.sub(r"0x[0-9a-f]+|/proc/\d+", "…", repr(value))


def _is_ours(finder: object) -> bool:
    return type(finder).__name__ in _OURS


def _descriptors() -> list[str]:
    """The target, or its kind, of each descriptor above the standard streams."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{number}")
        except OSError:
            continue
        if int(number) > 2 and not target.startswith("/proc/"):
            found.append(target.partition(":[")[0])
    return sorted(found)


def _generators() -> dict[str, str]:
    import hashlib

    states: dict[str, object] = {}
    if _there("random") is not None:
        states["random"] = _there("random").getstate()
    state = getattr(_there("numpy.random.mtrand"), "_rand", None)
    if state is not None:
        states["numpy"] = state.get_state()[1].tobytes()
    generator = getattr(_there("torch"), "default_generator", None)
    if generator is not None:
        states["torch"] = generator.get_state().numpy().tobytes()
    return {
        name: hashlib.sha256(repr(state).encode()).hexdigest() for name, state in states.items()
    }


def _logging() -> dict[str, str]:
    logging = _there("logging")
    if logging is None:
        return {}
    loggers = {"root": logging.root, **logging.root.manager.loggerDict}
    return {
        name: f"{logger.level} {[_plain(one) for one in logger.handlers]} {logger.propagate}"
        for name, logger in sorted(loggers.items())
        if isinstance(logger, logging.Logger)
    }


def _signals() -> dict[str, str]:
    import signal

    found = {}
    for number in sorted(signal.valid_signals()):
        found[str(int(number))] = _plain(signal.getsignal(number))
    return found


FALLBACK_MODULES_VARIABLE = "RESILE_LATE_MODULES"


class FallbackFinder:
    """Finds the given modules in the given files."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if name not in self._files:
            return None
        from importlib.util import spec_from_file_location

        return spec_from_file_location(name, self._files[name])


def fallback_modules(files: Mapping[str, str]) -> dict[str, str]:
    """Return the variable by which workers find modules, by name, in these files."""
    return {
        FALLBACK_MODULES_VARIABLE: os.pathsep.join(f"{name}={file}" for name, file in files.items())
    }


def install_fallback_finder(environ: MutableMapping[str, str]) -> None:
    """In a worker: install the finder behind all others, if the environment names modules."""
    given = environ.pop(FALLBACK_MODULES_VARIABLE, "")
    files = dict(one.split("=", 1) for one in given.split(os.pathsep) if "=" in one)
    if files:
        sys.meta_path.append(FallbackFinder(files))


_HOOK = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "hook")


def show_hook(environ: MutableMapping[str, str]) -> None:
    """Let the interpreter that is about to start find the hook."""
    given = environ.get("PYTHONPATH")
    environ["PYTHONPATH"] = os.pathsep.join([_HOOK, given] if given else [_HOOK])
    environ["RESILE_NURSERY"] = "cold"


def begin(environ: MutableMapping[str, str]) -> None:
    """In the worker: remove the hook from PYTHONPATH, and install the finder."""
    rest = environ["PYTHONPATH"].partition(os.pathsep)[2]
    if rest:
        environ["PYTHONPATH"] = rest
    else:
        del environ["PYTHONPATH"]
    install_fallback_finder(environ)
    if EXIT_REPORT_VARIABLE in environ:
        report_at_exit(environ)
