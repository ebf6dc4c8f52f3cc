"""Collects the names of modules that workers import beyond the preloaded ones.

Warm workers write lines (see `inside.reports`) to a pipe that the agent reads. Names of known
modules are dropped; when no new name has arrived for a while, the new ones are passed on. All other
reports are passed on at once, the first time they arrive.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable

from .inside.reports import Changed, Imported, Report, UnfitPackage, parse

_READ_BYTES = 1 << 16


class ImportReports:
    """The reading end of the pipe, with a timer."""

    def __init__(
        self,
        *,
        quiet: float,
        on_quiet: Callable[[list[str]], None],
        on_remark: Callable[[Changed | UnfitPackage], None],
    ) -> None:
        self._quiet = quiet
        self._on_remark = on_remark
        self._remarks: set[Report] = set()
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
        """Add names to the known ones."""
        self._known.update(names)

    def take(self) -> list[str]:
        """Return the names that were not passed on yet, and mark them as passed on."""
        self._receive()
        if self._timer is not None:
            self._timer.cancel()
        names, self._new = list(self._new), {}
        self._known.update(names)
        return names

    def close(self) -> list[str]:
        """Stop reading; return the names that were not passed on yet."""
        names = self.take()
        self._loop.remove_reader(self._read)
        os.close(self._read)
        os.close(self.write_end)
        return names

    def _receive(self) -> None:
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._read, _READ_BYTES)
            *lines, self._partial = (self._partial + data).split(b"\n")
            self._sort([parse(line.decode(errors="replace")) for line in lines])

    def _sort(self, reports: Iterable[Report]) -> None:
        self._take(report.name for report in reports if isinstance(report, Imported))
        for report in reports:
            if not isinstance(report, Imported) and report not in self._remarks:
                self._remarks.add(report)
                self._on_remark(report)

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
