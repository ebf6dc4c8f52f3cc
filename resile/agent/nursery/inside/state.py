"""The process-wide settings that an import may change.

A library that changes one of them at import time must be imported in the script's own order: if it
were preloaded, the script's own setting could win where the library's should, or the reverse.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable
from typing import Any


def process_settings() -> dict[str, object]:
    """Return all settings as comparable values, each under a description of its change."""
    return {what: read() for what, read in _READERS.items()}


def changes(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """Return the descriptions of all settings that differ."""
    return [what for what, value in before.items() if after[what] != value]


def _module(name: str) -> Any:
    """Return a loaded module; `None` while its package is being imported, when access may fail."""
    module = sys.modules.get(name)
    package = sys.modules.get(name.partition(".")[0])
    spec = getattr(package, "__spec__", None)
    return None if getattr(spec, "_initializing", False) else module


def _logging() -> object:
    logging = _module("logging")
    if not hasattr(logging, "root"):
        return None
    return logging.root.level, [id(one) for one in logging.root.handlers], logging.root.disabled


def _random() -> object:
    generator = getattr(_module("random"), "_inst", None)
    return generator.getstate() if generator is not None else None


def _numpy_random() -> object:
    state = getattr(_module("numpy.random.mtrand"), "_rand", None)
    if state is None:
        return None
    _, key, *rest = state.get_state()
    return key.tobytes(), rest


def _torch_random() -> object:
    generator = getattr(_module("torch"), "default_generator", None)
    return None if generator is None else generator.get_state().numpy().tobytes()


def _torch_settings() -> object:
    torch = _module("torch")
    if torch is None:
        return None
    return (
        torch.get_default_dtype(),
        torch.get_num_threads(),
        torch.is_grad_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_float32_matmul_precision(),
    )


def _numpy_settings() -> object:
    numpy = _module("numpy")
    return numpy.geterr() if hasattr(numpy, "geterr") else None


def _locale() -> object:
    locale = _module("_locale")
    return locale.setlocale(locale.LC_ALL) if locale is not None else None


def _limits() -> object:
    resource = _module("resource")
    return resource.getrlimit(resource.RLIMIT_NOFILE) if resource is not None else None


def _start_method() -> object:
    context = getattr(_module("multiprocessing.context"), "_default_context", None)
    return id(getattr(context, "_actual_context", None))


def _socket_timeout() -> object:
    return getattr(_module("_socket"), "getdefaulttimeout", lambda: None)()


def _exit_functions() -> object:
    return getattr(_module("atexit"), "_ncallbacks", lambda: 0)()


def _unhandled() -> object:
    return [id(hook) for hook in (sys.excepthook, sys.displayhook, sys.unraisablehook)]


def _streams() -> object:
    return [id(stream) for stream in (sys.stdin, sys.stdout, sys.stderr)]


_SIGNALS = sorted(int(number) for number in signal.valid_signals())
_getsignal: Any = getattr(signal.getsignal, "__wrapped__", signal.getsignal)
"""Without the wrapper that converts its results to enums, which takes longer than all the rest."""

_READERS: dict[str, Callable[[], object]] = {
    "leaves files, sockets or pipes open": lambda: sorted(os.listdir("/proc/self/fd")),
    "configures logging": _logging,
    "seeds or uses Python's random numbers": _random,
    "seeds or uses numpy's random numbers": _numpy_random,
    "seeds or uses torch's random numbers": _torch_random,
    "changes torch's settings": _torch_settings,
    "changes numpy's settings": _numpy_settings,
    "changes sys.path": lambda: list(sys.path),
    "changes how modules are found": lambda: [id(one) for one in (*sys.meta_path, *sys.path_hooks)],
    "changes the garbage collector": lambda: (gc.isenabled(), gc.get_threshold()),
    "handles signals": lambda: [_getsignal(number) for number in _SIGNALS],
    "registers functions to call at exit": _exit_functions,
    "changes how errors are shown": _unhandled,
    "replaces the standard streams": _streams,
    "changes the working directory": os.getcwd,
    "changes the locale": _locale,
    "changes limits of the process": _limits,
    "chooses how multiprocessing starts processes": _start_method,
    "sets a timeout for sockets": _socket_timeout,
    "changes the interpreter's limits": lambda: (
        sys.getrecursionlimit(),
        sys.getswitchinterval(),
    ),
}
