"""Side effects of an import that make a module unsafe to preload: changed settings, and calls.

A library that changes a process-wide setting at import time must be imported in the script's own
order: if it were preloaded, the script's own setting could win where the library's should, or the
reverse.

Functions whose use at import time is such an effect are wrapped. Each wrapper reports the call and
then calls the original. A library may keep a reference to one of them (`from os import urandom`);
it then works as the original does, and its reports are ignored.
"""

from __future__ import annotations

import builtins
import functools
import gc
import io
import os
import random
import signal
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from multiprocessing.synchronize import SemLock
from types import FrameType
from typing import Any

from .origins import holds_packages
from .trusted import is_trusted


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


ReportEffect = Callable[[str], None]
MakeWrapper = Callable[[Any, ReportEffect], Any]

_LIBRARIES = tuple(
    os.path.join(path, "")
    for path in {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix}
)
_UNCHANGING = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/")
_FRAMES = 8
"""How many frames are searched for `tempfile`: it is never further up."""

_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _telling(deed: str) -> MakeWrapper:
    """Return a factory of wrappers that report every call."""

    def make(original: Any, tell: ReportEffect) -> Any:
        @functools.wraps(original)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            tell(deed)
            return original(*args, **kwargs)

        return stand_in

    return make


def _reporting_untrusted(deed: str) -> MakeWrapper:
    """Return a factory of wrappers that report every call, except by trusted modules."""

    def make(original: Any, tell: ReportEffect) -> Any:
        @functools.wraps(original)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            if not is_trusted(sys._getframe(1).f_globals.get("__name__", "")):
                tell(deed)
            return original(*args, **kwargs)

        return stand_in

    return make


def _seed(original: Any, tell: ReportEffect) -> Any:
    @functools.wraps(original)
    def seed(self: Any, a: Any = None, *rest: Any, **kwargs: Any) -> Any:
        if a is None and not _looks_for_temporary_folder():
            tell("makes a random generator")
        return original(self, a, *rest, **kwargs)

    return seed


def _open(original: Any, tell: ReportEffect) -> Any:
    @functools.wraps(original)
    def open_file(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        _tell_of_file(file, writing=bool(set(str(mode)) & set("wax+")), tell=tell)
        return original(file, mode, *args, **kwargs)

    return open_file


def _os_open(original: Any, tell: ReportEffect) -> Any:
    @functools.wraps(original)
    def open_descriptor(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
        _tell_of_file(path, writing=bool(flags & _TO_WRITE), tell=tell)
        return original(path, flags, *args, **kwargs)

    return open_descriptor


def _tell_of_file(file: Any, *, writing: bool, tell: ReportEffect) -> None:
    """Report a file that is written, or that may be different when a worker runs."""
    if isinstance(file, int) or _looks_for_temporary_folder():
        return
    path = os.path.abspath(os.fsdecode(file))
    if writing and path != os.devnull:
        tell(f"writes {path}")
    elif not (path.startswith((*_LIBRARIES, *_UNCHANGING)) or holds_packages(path)):
        tell(f"reads {path}")


def _looks_for_temporary_folder() -> bool:
    """Whether `tempfile` is looking for a writable folder, which leaves nothing behind."""
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame is None:
            return False
        if frame.f_code.co_name == "_get_default_tempdir":
            return True
        frame = frame.f_back
    return False


INSTRUMENTS: tuple[tuple[Any, str, MakeWrapper], ...] = (
    (os, "urandom", _telling("draws random bytes")),
    (random, "_urandom", _telling("draws random bytes")),
    (random.Random, "seed", _seed),
    (os, "getpid", _reporting_untrusted("looks at its process id")),
    (builtins, "open", _open),
    (io, "open", _open),
    (os, "open", _os_open),
    (socket.socket, "connect", _telling("connects to another process")),
    (socket, "getaddrinfo", _telling("looks up an address")),
    (subprocess.Popen, "__init__", _telling("runs a program")),
    (SemLock, "__init__", _telling("makes a semaphore")),
    (os, "fork", _telling("starts another process")),
    (os, "system", _telling("runs a program")),
)
