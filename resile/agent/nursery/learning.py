"""Collects what workers import beyond what they were born with, and says when they seem done.

Warm workers write module names, one a line, to a pipe that the agent reads. Names that are known
already are dropped. When nothing new has come for a while the new ones are handed on.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable

_READ_BYTES = 1 << 16


class ImportReports:
    """The reading end of the pipe, with a timer."""

    def __init__(self, *, quiet: float, on_quiet: Callable[[list[str]], None]) -> None:
        self._quiet = quiet
        self._on_quiet = on_quiet
        self._loop = asyncio.get_running_loop()
        self._read, self.write_end = os.pipe()
        os.set_blocking(self._read, False)
        self._loop.add_reader(self._read, self._receive)
        self._partial = b""
        self._known: set[str] = set()
        self._new: dict[str, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def know(self, names: Iterable[str]) -> None:
        """Take note of names that need not be learnt any more."""
        self._known.update(names)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._read)
        os.close(self._read)
        os.close(self.write_end)

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._read, _READ_BYTES)
            *lines, self._partial = (self._partial + data).split(b"\n")
            self._take(line.decode(errors="replace") for line in lines)

    def _take(self, names: Iterable[str]) -> None:
        fresh = [name for name in names if name not in self._known and name not in self._new]
        if not fresh:
            return
        self._new.update(dict.fromkeys(fresh))
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._quiet, self._hand_on)

    def _hand_on(self) -> None:
        names, self._new = list(self._new), {}
        self._known.update(names)
        self._on_quiet(names)
