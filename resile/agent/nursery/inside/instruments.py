"""Wrappers of functions whose use at import time makes a module unsafe to preload.

Each reports the call and then calls the original. A library may keep a reference to one of them
(`from os import urandom`); it then works as the original does, and its reports are ignored.
"""

import builtins
import functools
import io
import os
import random
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

Tell = Callable[[str], None]
Make = Callable[[Any, Tell], Any]

_LIBRARIES = tuple(
    os.path.join(path, "")
    for path in {*sysconfig.get_paths().values(), sys.prefix, sys.base_prefix}
)
_UNCHANGING = ("/proc/", "/sys/", "/dev/", "/etc/", "/usr/")
_FRAMES = 8
"""How many frames are searched for `tempfile`: it is never further up."""

_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def _telling(deed: str) -> Make:
    """Return a factory of wrappers that report every call."""

    def make(original: Any, tell: Tell) -> Any:
        @functools.wraps(original)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            tell(deed)
            return original(*args, **kwargs)

        return stand_in

    return make


def _telling_of_strangers(deed: str) -> Make:
    """Return a factory of wrappers that report every call, except by trusted modules."""

    def make(original: Any, tell: Tell) -> Any:
        @functools.wraps(original)
        def stand_in(*args: Any, **kwargs: Any) -> Any:
            if not is_trusted(sys._getframe(1).f_globals.get("__name__", "")):
                tell(deed)
            return original(*args, **kwargs)

        return stand_in

    return make


def _seed(original: Any, tell: Tell) -> Any:
    @functools.wraps(original)
    def seed(self: Any, a: Any = None, *rest: Any, **kwargs: Any) -> Any:
        if a is None and not _looks_for_temporary_folder():
            tell("makes a random generator")
        return original(self, a, *rest, **kwargs)

    return seed


def _open(original: Any, tell: Tell) -> Any:
    @functools.wraps(original)
    def open_file(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        _tell_of_file(file, writing=bool(set(str(mode)) & set("wax+")), tell=tell)
        return original(file, mode, *args, **kwargs)

    return open_file


def _os_open(original: Any, tell: Tell) -> Any:
    @functools.wraps(original)
    def open_descriptor(path: Any, flags: int, *args: Any, **kwargs: Any) -> Any:
        _tell_of_file(path, writing=bool(flags & _TO_WRITE), tell=tell)
        return original(path, flags, *args, **kwargs)

    return open_descriptor


def _tell_of_file(file: Any, *, writing: bool, tell: Tell) -> None:
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


INSTRUMENTS: tuple[tuple[Any, str, Make], ...] = (
    (os, "urandom", _telling("draws random bytes")),
    (random, "_urandom", _telling("draws random bytes")),
    (random.Random, "seed", _seed),
    (os, "getpid", _telling_of_strangers("looks at its process id")),
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
