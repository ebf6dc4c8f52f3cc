"""Where workers' output goes: one readable stream with the rank in front, and files if wanted.

Each stream of each worker is either a pipe that this process reads line by line (the console, and
a file when teed) or, when redirected, the file itself. The last lines are kept for the report of a
failure. Progress bars that only ever return the carriage come out as lines.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Flag
from pathlib import Path
from typing import IO

KEPT_LINES = 30
"""Enough for a traceback's end, little enough for a message."""

LONGEST_LINE = 64 * 1024
"""A line longer than this is shown in pieces."""


class Streams(Flag):
    """Which of a worker's streams, with torchrun's numbers."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = 3


class StreamsError(ValueError):
    """The user wrote something that names no streams, or no folder that can be written."""


@dataclass(frozen=True)
class StreamChoice:
    """Streams for all local ranks, or for each on its own (``"0:1,1:3"``)."""

    everyone: Streams = Streams.NONE
    by_rank: dict[int, Streams] = field(default_factory=dict)

    def of(self, local_rank: int) -> Streams:
        """The choice for one worker."""
        return self.by_rank.get(local_rank, self.everyone)

    @staticmethod
    def parse(text: str, *, flag: str) -> StreamChoice:
        """torchrun's notation: ``3``, or ``RANK:STREAMS`` separated by commas."""
        try:
            if ":" not in text:
                return StreamChoice(Streams(int(text)))
            pairs = (pair.split(":") for pair in text.split(","))
            return StreamChoice(by_rank={int(rank): Streams(int(what)) for rank, what in pairs})
        except ValueError:
            raise StreamsError(
                f"{flag} {text}: write 0 (none), 1 (stdout), 2 (stderr), 3 (both), "
                "or RANK:NUMBER pairs such as 0:3,1:2"
            ) from None


@dataclass(frozen=True)
class LogRouting:
    """The user's choice: what is redirected, what is teed, and whose lines the console shows."""

    folder: Path | None = None
    redirects: StreamChoice = field(default_factory=StreamChoice)
    tee: StreamChoice = field(default_factory=StreamChoice)
    shown_ranks: frozenset[int] | None = None
    prefix: bool = True


class WorkerLog:
    """The two streams of one worker in one round. Give its ``stdout``/``stderr`` to the worker,
    then call :meth:`started`; after the worker's end :meth:`finish` returns when all is read."""

    def __init__(self, routing: LogRouting, folder: Path, *, local_rank: int, rank: int) -> None:
        self.folder = folder
        self._tail: deque[str] = deque(maxlen=KEPT_LINES)
        self._readers: list[asyncio.Task[None]] = []
        self._opened: list[int] = []
        self._files: list[IO[bytes]] = []
        self._routing = routing
        self._local_rank = local_rank
        self._prefix = f"[rank{rank}] ".encode() if routing.prefix else b""
        self.stdout = self._route(Streams.OUT, "stdout.log", sys.stdout)
        self.stderr = self._route(Streams.ERR, "stderr.log", sys.stderr)

    def _route(self, stream: Streams, name: str, console: IO[str]) -> int:
        """A file descriptor for the worker to write to."""
        path = self.folder / name
        if stream in self._routing.redirects.of(self._local_rank) and (
            stream not in self._routing.tee.of(self._local_rank)
        ):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            self._opened.append(descriptor)
            return descriptor
        read, write = os.pipe()
        os.set_blocking(read, False)
        self._opened.append(write)
        sinks: list[Callable[[bytes], None]] = []
        shown = self._routing.shown_ranks
        if shown is None or self._local_rank in shown:
            sinks.append(self._console_sink(console))
        if stream in self._routing.tee.of(self._local_rank):
            file = open(path, "ab", buffering=0)  # noqa: SIM115 - lives as long as the worker
            self._files.append(file)
            sinks.append(lambda line: (file.write(line), None)[1])
        if stream is Streams.ERR:
            sinks.append(lambda line: self._tail.append(line.decode(errors="replace").rstrip()))
        self._readers.append(asyncio.create_task(_read_lines(read, sinks)))
        return write

    def _console_sink(self, console: IO[str]) -> Callable[[bytes], None]:
        prefix = self._prefix

        def show(line: bytes) -> None:
            try:
                console.write((prefix + line).decode(errors="replace"))
                console.flush()
            except (OSError, ValueError):
                # The console is gone (a closed pipe or terminal); the workers go on.
                return

        return show

    def started(self) -> None:
        """The worker holds its own copies: close ours, or the end of output is never seen."""
        for descriptor in self._opened:
            os.close(descriptor)
        self._opened.clear()

    async def finish(self) -> None:
        """Read what is left. A grandchild may still hold a pipe open: do not wait for it."""
        if self._readers:
            _, late = await asyncio.wait(self._readers, timeout=1.0)
            for task in late:
                task.cancel()
            await asyncio.gather(*self._readers, return_exceptions=True)
        for file in self._files:
            file.close()

    def last_words(self) -> str:
        """The last lines of stderr."""
        if self._tail:
            return "\n".join(self._tail)
        try:
            text = (self.folder / "stderr.log").read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-KEPT_LINES:])


async def _read_lines(descriptor: int, sinks: list[Callable[[bytes], None]]) -> None:
    """Hand every line to every sink until the pipe's end."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(descriptor, readable.set)
    rest = b""
    try:
        while True:
            await readable.wait()
            readable.clear()
            try:
                chunk = os.read(descriptor, 1 << 16)
            except BlockingIOError:
                continue
            if not chunk:
                break
            *lines, rest = (rest + chunk).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
            if len(rest) > LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            for line in lines:
                _emit(line, sinks)
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
        if rest:
            _emit(rest, sinks)


def _emit(line: bytes, sinks: list[Callable[[bytes], None]]) -> None:
    for sink in sinks:
        sink(line + b"\n")


def attempt_folder(root: Path, round_number: int, local_rank: int) -> Path:
    """Where one worker's files of one round lie; torchrun's layout."""
    folder = root / f"attempt_{round_number - 1}" / str(local_rank)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def log_root(routing: LogRouting, run_id: str) -> Path:
    """A folder of this run's own, under the user's choice or a temporary one."""
    where = routing.folder or tempfile.gettempdir()
    try:
        return _temporary_root() if routing.folder is None else _kept_root(routing.folder, run_id)
    except OSError as error:
        raise StreamsError(f"--log-dir {where}: {error.strerror}") from None


def _kept_root(folder: Path, run_id: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in run_id)[:64]
    return Path(tempfile.mkdtemp(prefix=f"{safe}_", dir=folder))


def _temporary_root() -> Path:
    """``resile-<user>/<pid>``. Folders of agents that were killed are removed on the way."""
    ours = Path(tempfile.gettempdir()) / f"resile-{os.getuid()}"
    ours.mkdir(mode=0o700, exist_ok=True)
    if not _is_private(ours):
        return Path(tempfile.mkdtemp(prefix="resile-"))
    for folder in ours.iterdir():
        if folder.name.isdigit() and not Path(f"/proc/{folder.name}").exists():
            shutil.rmtree(folder, ignore_errors=True)
    root = ours / str(os.getpid())
    root.mkdir(exist_ok=True)
    return root


def _is_private(folder: Path) -> bool:
    """Whether nobody else can have put it there: anybody may guess the name of a temporary folder,
    and a link in its place would have us clean up elsewhere."""
    found = folder.lstat()
    others = stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others


def remove_temporary(root: Path) -> None:
    """Remove a temporary root, and the folder of all of them if this was the last."""
    shutil.rmtree(root, ignore_errors=True)
    with contextlib.suppress(OSError):
        root.parent.rmdir()
