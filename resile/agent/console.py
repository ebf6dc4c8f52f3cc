"""The agent's own stdout and stderr, written by threads of their own.

There may be no reader (`resile run … | less`), the disk may be full, the terminal may be stopped. A
write then blocks, and it must block nothing but its own thread: not the agent's event loop, which
handles signals and workers. Lost output is counted, so that the agent can report it and exit with a
code other than 0. The descriptors stay in blocking mode: they are shared with the process that
started this one.

Several sources write to one stream, each line with its source's prefix. Bytes are not decoded and
line ends are not changed. A carriage return is kept, so a progress bar redraws its line, and the
redrawn line has the prefix again. A line may be unfinished (a prompt); if another source writes
then, a newline is inserted between the two.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from resile.system.readiness import wait_writable

__all__ = [
    "Console",
    "ConsoleHandler",
    "ConsoleWriter",
    "LineMerger",
    "LineSource",
    "LostOutput",
    "complete_utf8_length",
]


_LONGEST_CHARACTER = 4
"""Bytes of the longest character in UTF-8."""


class LineSource:
    """A writer to the stream.

    ``own_lines``: a newline is inserted between its output and an unfinished line of another
    source. Without it bytes are passed on unchanged, as if all wrote to one terminal.
    """

    def __init__(self, prefix: bytes = b"", *, own_lines: bool = True) -> None:
        self.prefix = prefix
        self.own_lines = own_lines
        self.fresh = True
        """Whether the next byte begins a line and needs the prefix."""

        self.after_return = False
        """Whether the last byte was a carriage return: a newline then belongs to the same line
        end."""


class LineMerger:
    """A stream that several sources write to."""

    def __init__(self) -> None:
        self._unfinished: LineSource | None = None

    def merge(self, source: LineSource, data: bytes) -> bytes:
        """Return the bytes to write when ``source`` writes ``data``."""
        if not data:
            return b""
        merged = self._separator(source) + (_prefixed(source, data) if source.prefix else data)
        if data.strip(b"\r"):
            self._unfinished = None if data.endswith(b"\n") else source
        return merged

    def _separator(self, source: LineSource) -> bytes:
        other = self._unfinished
        if other is None or other is source or not (source.own_lines or other.own_lines):
            return b""
        other.fresh, other.after_return = True, False
        return b"\n"


def _prefixed(source: LineSource, data: bytes) -> bytes:
    parts: list[bytes] = []
    if source.after_return and data.startswith(b"\n"):
        parts.append(b"\n")
        data = data[1:]
    for line in data.splitlines(keepends=True):
        if source.fresh and line != b"\r":
            parts.append(source.prefix)
        parts.append(line)
        source.fresh = line.endswith((b"\n", b"\r"))
    source.after_return = data.endswith(b"\r")
    return b"".join(parts)


def complete_utf8_length(data: bytes | bytearray) -> int:
    """How many bytes of ``data`` can be shown without cutting a UTF-8 character in two."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if needed > back else len(data)
    return len(data)


QUEUE_FULL = 256 * 1024
"""Bytes waiting to be written above which workers' pipes are no longer read. Workers then block
when their pipes are full, as they would with this console as their own."""

MAX_QUEUED = 16 * 1024 * 1024
"""Upper limit of bytes waiting to be written, log lines included. The rest is dropped."""

_LOOK = 0.05
"""Poll interval, in seconds, for a console without a reader."""

_CLOSED = (errno.EPIPE, errno.EIO, errno.EBADF, errno.ENXIO)
"""The reader or the terminal is gone for good: the output counts as unwanted, not as lost."""


@dataclass(frozen=True)
class LostOutput:
    """Output that could not be written."""

    where: str
    size: int
    why: str

    def __str__(self) -> str:
        return f"{self.size} bytes of output could not be written to {self.where}: {self.why}"


class ConsoleWriter:
    """Writes to one descriptor, in the order of the calls from all threads."""

    def __init__(self, descriptor: int, name: str) -> None:
        self._descriptor = descriptor
        self._name = name
        self._merger = LineMerger()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._written = 0
        self._lost = 0
        self._why_lost = ""
        self._closed = False
        self._has_work = threading.Condition()
        self._thread: threading.Thread | None = None
        self._on_room: list[Callable[[], None]] = []

    def write(self, source: LineSource, data: bytes) -> None:
        """Queue ``data`` for writing. Never blocks."""
        with self._has_work:
            if self._closed:
                return
            if self._size + len(data) > MAX_QUEUED:
                self._lose(len(data), "there is no reader")
                return
            merged = self._merger.merge(source, data)
            self._waiting.append(merged)
            self._size += len(merged)
            self._has_work.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"write {self._name}", daemon=True
                )
                self._thread.start()

    @property
    def size(self) -> int:
        """Bytes waiting to be written."""
        return self._size

    @property
    def is_full(self) -> bool:
        """Whether so much is waiting to be written that no more should be added."""
        return self._size >= QUEUE_FULL

    def on_writable(self, callback: Callable[[], None]) -> None:
        """Call back, from another thread, whenever the queue is no longer full."""
        self._on_room.append(callback)

    @property
    def loss(self) -> LostOutput | None:
        """The output that could not be written so far."""
        return LostOutput(self._name, self._lost, self._why_lost) if self._lost else None

    @property
    def written(self) -> int:
        """Bytes written so far, by which a waiting caller can see whether there is a reader."""
        return self._written

    def wait_until_written(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for everything to be written; return whether it is."""
        with self._has_work:
            return self._has_work.wait_for(lambda: not self._size, seconds)

    def _run(self) -> None:
        while True:
            with self._has_work:
                self._has_work.wait_for(lambda: self._waiting)
                data = b"".join(self._waiting)
                self._waiting.clear()
            self._write_all(data)
            with self._has_work:
                was_full = self.is_full
                self._size -= len(data)
                self._has_work.notify_all()
            if was_full and not self.is_full:
                for callback in self._on_room:
                    callback()

    def _write_all(self, data: bytes) -> None:
        left = memoryview(data)
        while left and not self._closed:
            try:
                count = os.write(self._descriptor, left)
                self._written += count
                left = left[count:]
            except BlockingIOError:
                # Another process that shares the terminal has put it into non-blocking mode.
                wait_writable(self._descriptor)
            except OSError as error:
                if error.errno in _CLOSED:
                    self._closed = True
                    return
                with self._has_work:
                    self._lose(len(left), error.strerror or str(error))
                return

    def _lose(self, size: int, why: str) -> None:
        self._lost += size
        self._why_lost = why


class Console:
    """Stdout and stderr; one writer if they are the same file, so that their order is kept."""

    def __init__(self, out: ConsoleWriter, err: ConsoleWriter) -> None:
        self.out = out
        self.err = err

    @staticmethod
    def of_this_process() -> Console:
        """Stdout and stderr as this process was given them."""
        _open_missing()
        out = ConsoleWriter(1, "stdout")
        return Console(out, out if _same_file(1, 2) else ConsoleWriter(2, "stderr"))

    @property
    def writers(self) -> tuple[ConsoleWriter, ...]:
        """Both writers, or the one that they share."""
        return (self.out,) if self.out is self.err else (self.out, self.err)

    @property
    def losses(self) -> list[LostOutput]:
        """The output that could not be written so far."""
        return [loss for writer in self.writers if (loss := writer.loss)]

    def drain(self, *, stall: float, keep_waiting: Callable[[], bool]) -> None:
        """Wait until everything is written. Blocks.

        Once ``keep_waiting`` returns False, ``stall`` seconds without progress end the wait.
        """
        for writer in self.writers:
            seen, since = writer.written, time.monotonic()
            while not writer.wait_until_written(_LOOK):
                if writer.written != seen:
                    seen, since = writer.written, time.monotonic()
                if not keep_waiting() and time.monotonic() - since > stall:
                    break


class ConsoleHandler(logging.Handler):
    """Writes log lines in order with the workers' lines."""

    def __init__(self, writer: ConsoleWriter, *, encoding: str = "utf-8") -> None:
        super().__init__()
        self._writer = writer
        self._encoding = encoding
        self._source = LineSource()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one record."""
        try:
            line = self.format(record) + "\n"
            self._writer.write(self._source, line.encode(self._encoding, "backslashreplace"))
        except Exception:
            self.handleError(record)


def _open_missing() -> None:
    """Open closed standard streams on /dev/null: else a file of ours would get their number."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def _same_file(one: int, other: int) -> bool:
    return os.path.sameopenfile(one, other)
