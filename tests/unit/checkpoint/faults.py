"""Failing operations of the system under a local storage: the k-th one fails in a given way."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any

import pytest

from resile.checkpoint.storage import local as local_storage
from resile.system import regular_files

OPERATIONS = ("open", "write", "fsync", "rename", "unlink", "mkdir", "rmdir", "scandir", "preadv")


class Fault(str, Enum):
    """The failure that replaces the operation."""

    FULL = "the disk is full"
    BROKEN = "the disk fails"
    TORN = "half is done and then the disk fails"
    KILLED = "the process is killed"
    KILLED_TORN = "half is done and then the process is killed"


class FaultyOs:
    """The module ``os`` with one operation that fails."""

    def __init__(self, at: int, fault: Fault) -> None:
        self.done: list[str] = []
        self._at = at
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        return self._counted(name, real) if name in OPERATIONS else real

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **settings: Any) -> Any:
            self.done.append(name)
            if len(self.done) - 1 == self._at:
                self._fail(name, args)
            return real(*args, **settings)

        return call

    def _fail(self, name: str, args: tuple[Any, ...]) -> None:
        if self._fault in (Fault.TORN, Fault.KILLED_TORN) and name == "write":
            os.write(args[0], args[1][: len(args[1]) // 2])
        if self._fault in (Fault.KILLED, Fault.KILLED_TORN):
            os.kill(os.getpid(), signal.SIGKILL)
        number = errno.ENOSPC if self._fault is Fault.FULL else errno.EIO
        raise OSError(number, os.strerror(number))


@contextmanager
def faulty_system(at: int, fault: Fault) -> Iterator[FaultyOs]:
    """Make the ``at``-th operation of local storages fail during the block; -1: none."""
    faulty = FaultyOs(at, fault)
    with pytest.MonkeyPatch.context() as patch:
        for module in (local_storage, regular_files):
            patch.setattr(module, "os", faulty)
        yield faulty
