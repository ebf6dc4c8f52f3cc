"""Copies workers' output from their pipes to the console and to files, in a thread of its own.

A slow console or disk delays this thread and, when their pipes are full, the workers that print;
never the agent's event loop. Files get every byte as it was written. The console gets whole lines
where possible, so that workers' lines do not mix: the beginning of a line is held back for a moment
and shown if nothing follows (a prompt). The end of a worker's output is kept for the failure
report, even when the console is blocked.
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from resile.agent.console import (
    MAX_QUEUED,
    Console,
    ConsoleWriter,
    LineSource,
    LostOutput,
    complete_utf8_length,
)

__all__ = ["OutputFile", "OutputRelay", "OutputStream"]

log = logging.getLogger("resile.agent")

PARTIAL_LINE_DELAY = 0.05
"""Seconds for which the beginning of a line is held back before it is shown without its end."""

LONGEST_HELD = 1024 * 1024
"""Bytes of a line that are held back; longer lines are shown as they arrive."""

KEPT_BYTES = 32 * 1024
"""Bytes kept from the end of a worker's output, enough for the longest failure message."""

PIPE_BYTES = 1024 * 1024
"""The largest capacity of a pipe: so much is read from an exited worker even if the console is
blocked, because it contains the reason of the failure."""

READ_LIMIT = 30.0
"""Seconds for which the rest of the output is read when the agent ends. It takes milliseconds, or
seconds on an overloaded machine; a process that never stops printing would take forever."""

_CHUNK = 64 * 1024

_LOOK = 0.01
"""Poll interval, in seconds, while waiting until everything is read."""


class OutputFile:
    """A log file that gets a stream byte for byte.

    A disk that is full or unavailable does not stop the training: it is logged once, and lost bytes
    are counted.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._lost = 0
        self._why = ""

    def open(self) -> bool:
        """Create the file now, even if nothing is ever written; return whether it exists."""
        if self._descriptor is None:
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                self._descriptor = os.open(self.path, flags, 0o644)
            except OSError as error:
                self._failed(error)
        return self._descriptor is not None

    def detach(self) -> int:
        """Hand over the descriptor of the open file, for a worker to write to it directly."""
        assert self._descriptor is not None
        descriptor, self._descriptor = self._descriptor, None
        return descriptor

    def write(self, data: bytes) -> None:
        """Write as much as possible."""
        left = memoryview(data)
        if self.open() and self._descriptor is not None:
            try:
                while left:
                    left = left[os.write(self._descriptor, left) :]
            except OSError as error:
                self._failed(error)
        self._lost += len(left)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            # A network disk may report only now that it is full; what it stored is unknown.
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None

    @property
    def loss(self) -> LostOutput | None:
        """The output that could not be written so far."""
        return LostOutput(str(self.path), self._lost, self._why) if self._lost else None

    def _failed(self, error: OSError) -> None:
        if not self._why:
            log.error(
                "cannot write a worker's output to %s: %s; training continues",
                self.path,
                error.strerror,
            )
        self._why = error.strerror or str(error)


class OutputStream:
    """A pipe of one worker, and the destinations of its bytes."""

    def __init__(
        self,
        descriptor: int,
        *,
        console: ConsoleWriter | None,
        source: LineSource,
        file: OutputFile | None,
    ) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.console = console
        self.source = source
        self.file = file
        self.ended: Future[None] = Future()
        """Done when the stream is read to its end."""

        self.kept = b""
        """The end of the output so far."""

        self.held = bytearray()
        self.held_since = 0.0
        self.extra = 0
        """Bytes that may be read although the console is full."""

    @property
    def may_read(self) -> bool:
        return self.console is None or not self.console.is_full or self.extra > 0

    @property
    def is_holding(self) -> bool:
        """Whether the beginning of a line is held back."""
        return bool(self.held) and self.held_since < float("inf")

    def take(self, data: bytes) -> None:
        """Pass on bytes that were read."""
        if self.file is not None:
            self.file.write(data)
        self.kept = (self.kept + data)[-KEPT_BYTES:]
        if self.extra:
            self.extra = max(0, self.extra - len(data))
        if self.console is None:
            return
        if not self.held or self.held_since == float("inf"):
            self.held_since = time.monotonic()
        self.held += data
        # A carriage return belongs to what follows it: a newline, or the redrawn line.
        end = max(self.held.rfind(b"\n") + 1, self.held.rfind(b"\r"))
        self._show(
            end if end or len(self.held) <= LONGEST_HELD else complete_utf8_length(self.held)
        )

    def show_partial(self) -> None:
        """Show an unfinished line."""
        self._show(complete_utf8_length(self.held))
        # Do not poll for the rest of an incomplete character: wait for more data.
        self.held_since = float("inf")

    def finish(self) -> None:
        """Show the rest and close: the stream is read to its end."""
        self._show(len(self.held))
        if self.file is not None:
            self.file.close()
        os.close(self.descriptor)
        self.ended.set_result(None)

    def _show(self, count: int) -> None:
        if count and self.console is not None:
            self.console.write(self.source, bytes(self.held[:count]))
            del self.held[:count]
            self.held_since = time.monotonic()


class OutputRelay:
    """The thread that reads all streams; it starts with the first one."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._arrivals: deque[OutputStream] = deque()
        self._endings: deque[OutputStream] = deque()
        self._streams: dict[int, OutputStream] = {}
        self._files: list[OutputFile] = []
        self._busy = threading.Lock()
        """Held while bytes are copied from a pipe to their destinations."""
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._thread: threading.Thread | None = None
        for writer in console.writers:
            writer.on_writable(self._wake)

    def add(self, stream: OutputStream) -> None:
        """Start to read a stream."""
        if stream.file is not None:
            self._files.append(stream.file)
        self._arrivals.append(stream)
        self._wake()
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="relay output", daemon=True)
            self._thread.start()

    def drain(self, *, stall: float, keep_waiting: Callable[[], bool]) -> None:
        """Wait until all output so far is read and shown; see :meth:`Console.drain`. Blocks.

        Does not wait for a process that outlives its worker and never stops printing.
        """
        since = time.monotonic()
        limit = since + (READ_LIMIT if keep_waiting() else stall)
        while self._has_unread() and time.monotonic() < limit:
            time.sleep(_LOOK)
        self.console.drain(stall=stall, keep_waiting=keep_waiting)

    def _has_unread(self) -> bool:
        """Whether bytes are in a pipe, or between a pipe and the console."""
        if not self._busy.acquire(timeout=_LOOK):
            return True
        try:
            streams = [*self._arrivals, *self._streams.values()]
            poll = select.poll()
            for stream in streams:
                poll.register(stream.descriptor, select.POLLIN)
            return bool(poll.poll(0)) or any(stream.is_holding for stream in streams)
        finally:
            self._busy.release()

    def worker_ended(self, stream: OutputStream) -> None:
        """Read the rest even if the console is blocked: the worker has exited."""
        self._endings.append(stream)
        self._wake()

    @property
    def losses(self) -> list[LostOutput]:
        """The output that could not be written, to files or to the console."""
        of_files = [loss for file in self._files if (loss := file.loss)]
        return [*of_files, *self.console.losses]

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"x")

    def _run(self) -> None:
        while True:
            self._update()
            poll = select.poll()
            poll.register(self._wake_read, select.POLLIN)
            for stream in self._streams.values():
                if stream.may_read:
                    poll.register(stream.descriptor, select.POLLIN)
            ready = [descriptor for descriptor, _ in poll.poll(self._pause())]
            with self._busy:
                self._move(ready)

    def _move(self, ready: list[int]) -> None:
        for descriptor in ready:
            if descriptor == self._wake_read:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wake_read, 4096)
            else:
                self._read(self._streams[descriptor])
        self._show_partial_lines()

    def _update(self) -> None:
        while self._arrivals:
            # At every moment in at least one of the two: `_has_unread` looks at both.
            self._streams[self._arrivals[0].descriptor] = self._arrivals[0]
            self._arrivals.popleft()
        while self._endings:
            stream = self._endings.popleft()
            if stream.console is not None and stream.console.size < MAX_QUEUED - PIPE_BYTES:
                stream.extra = PIPE_BYTES

    def _pause(self) -> float | None:
        """Milliseconds until a held-back line is shown."""
        since = min((s.held_since for s in self._streams.values() if s.held), default=float("inf"))
        if since == float("inf"):
            return None
        return max(0.0, since + PARTIAL_LINE_DELAY - time.monotonic()) * 1000

    def _show_partial_lines(self) -> None:
        due = time.monotonic() - PARTIAL_LINE_DELAY
        for stream in self._streams.values():
            if stream.held and stream.held_since <= due:
                stream.show_partial()

    def _read(self, stream: OutputStream) -> None:
        try:
            data = os.read(stream.descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            log.error("cannot read a worker's output: %s", error)
            data = b""
        if data:
            stream.take(data)
            return
        del self._streams[stream.descriptor]
        stream.finish()
        if stream.file is not None and stream.file.loss is None:
            self._files.remove(stream.file)
