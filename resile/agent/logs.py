"""Routes workers' output to the console, with the rank as a prefix, and to files.

Each stream of each worker is either a pipe whose bytes are relayed (to the console, and to a file
when teed) or, when redirected, the file itself. If stdout and stderr of this process are the same
file (`2>&1`, a terminal) and nothing is teed, a worker has one pipe for both: their order is kept.

Without a log folder of the user's choice the files are in a temporary folder, removed by its agent
or, if that was killed, by the next agent. A folder is in use while it is locked; the kernel
releases the lock when its holder dies. Process ids would not work: containers that share a
temporary directory count their processes separately, and each would take the other's folder for a
dead agent's. All folders of a user are in one that only this user can write. It is locked while a
folder is created or cleaned up, so that none is removed between its creation and its lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import shutil
import socket
import stat
import string
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Flag
from pathlib import Path

from resile.agent.console import ConsoleWriter, LineSource
from resile.agent.relay import KEPT_BYTES, OutputFile, OutputRelay, OutputStream

_PREFIX = "agent-"
"""Folders with other names are not cleaned up."""

_TRIES = 100
"""How often the parent folder may be removed by an exiting agent while it is being entered."""


@dataclass(frozen=True)
class TemporaryFolder:
    """An agent's folder."""

    path: Path
    _lock: int | None = None
    """A locked descriptor of the folder; None where folders cannot be locked."""

    @classmethod
    def make(cls) -> TemporaryFolder:
        """Create a folder below the system's temporary directory; raises OSError. Folders of agents
        that were killed are removed."""
        ours = Path(tempfile.gettempdir()) / f"resile-{os.getuid()}"
        for _ in range(_TRIES):
            ours.mkdir(mode=0o700, exist_ok=True)
            if not _is_private(ours):
                break
            with _entered(ours) as entered:
                if entered:
                    _remove_dead(ours)
                    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=ours))
                    return cls(path, _locked(path))
        return cls(Path(tempfile.mkdtemp(prefix="resile-")))

    def remove(self) -> None:
        """Remove the folder, and its parent if this was the last."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is None:
            return
        os.close(self._lock)
        with _entered(self.path.parent) as entered, contextlib.suppress(OSError):
            if entered:
                self.path.parent.rmdir()


@contextlib.contextmanager
def _entered(folder: Path) -> Iterator[bool]:
    """Lock a folder; False if it was removed meanwhile, or cannot be locked."""
    descriptor = None
    try:
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor is not None and _is_at(folder, descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _is_at(folder: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(folder.lstat(), os.fstat(descriptor))
    except OSError:
        return False


def _locked(folder: Path) -> int | None:
    """A descriptor that locks a folder; None if it is locked already or cannot be locked."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_dead(ours: Path) -> None:
    for folder in ours.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = _locked(folder)
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _is_private(folder: Path) -> bool:
    """Whether only this user can have created the folder. Anybody can guess the name of a temporary
    folder, and with a link in its place we would clean up elsewhere."""
    found = folder.lstat()
    others = stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others


log = logging.getLogger("resile.agent")

KEPT_LINES = 30
"""Enough for the end of a traceback, little enough for a message."""

DEFAULT_PREFIX = "[rank${rank}] "
"""The prefix of a worker's line on the console."""


class Streams(Flag):
    """A set of a worker's streams, with torchrun's numbers."""

    NONE = 0
    OUT = 1
    ERR = 2
    ALL = 3


class StreamsError(ValueError):
    """Raised for an invalid choice of streams, or a log folder that cannot be written."""


@dataclass(frozen=True)
class StreamChoice:
    """Streams for all local ranks, or for single ones (``"0:1,1:3"``)."""

    everyone: Streams = Streams.NONE
    by_rank: dict[int, Streams] = field(default_factory=dict)

    def of(self, local_rank: int) -> Streams:
        """The choice for one worker."""
        return self.by_rank.get(local_rank, self.everyone)

    @staticmethod
    def parse(text: str, *, flag: str) -> StreamChoice:
        """Parse torchrun's notation: ``3``, or ``RANK:STREAMS`` separated by commas."""
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
    """The user's choice of streams to redirect and to tee, and of ranks that the console shows."""

    folder: Path | None = None
    redirects: StreamChoice = field(default_factory=StreamChoice)
    tee: StreamChoice = field(default_factory=StreamChoice)
    shown_ranks: frozenset[int] | None = None
    prefix_template: str = DEFAULT_PREFIX
    """With torchrun's ``${role_name}``, ``${local_rank}``, ``${rank}`` and ``${hostname}``. Empty:
    lines have no prefix, and bytes are shown exactly as they were written."""

    def source(self, *, role: str, local_rank: int, rank: int) -> LineSource:
        """The source of one worker's lines on the console."""
        prefix = string.Template(self.prefix_template).safe_substitute(
            role_name=role, local_rank=local_rank, rank=rank, hostname=socket.gethostname()
        )
        return LineSource(prefix.encode(errors="replace"), own_lines=bool(prefix))


class WorkerLog:
    """The two streams of one worker in one round. Pass ``stdout`` and ``stderr`` to the worker,
    then call :meth:`started`; after its exit :meth:`finish` waits until all output is read."""

    def __init__(
        self,
        routing: LogRouting,
        folder: Path,
        output: OutputRelay,
        *,
        role: str,
        local_rank: int,
        rank: int,
    ) -> None:
        self.folder = folder
        self._output = output
        self._redirected = routing.redirects.of(local_rank)
        self._teed = routing.tee.of(local_rank)
        self._shown = routing.shown_ranks is None or local_rank in routing.shown_ranks
        self._source = routing.source(role=role, local_rank=local_rank, rank=rank)
        self._streams: list[OutputStream] = []
        self._opened: list[int] = []
        console = output.console
        self.stdout, first = self._route(Streams.OUT, "stdout.log", console.out)
        if console.out is console.err and not self._redirected and not self._teed:
            self.stderr, self._stderr = self.stdout, first
        else:
            self.stderr, self._stderr = self._route(Streams.ERR, "stderr.log", console.err)

    def _route(
        self, stream: Streams, name: str, console: ConsoleWriter
    ) -> tuple[int, OutputStream | None]:
        """A descriptor for the worker to write to, and the relayed stream, if it is relayed."""
        teed = stream in self._teed
        file = OutputFile(self.folder / name) if teed or stream in self._redirected else None
        if file is not None and file.open() and not teed:
            self._opened.append(descriptor := file.detach())
            return descriptor, None
        read, write = os.pipe()
        self._opened.append(write)
        relayed = OutputStream(
            read, console=console if self._shown else None, source=self._source, file=file
        )
        self._streams.append(relayed)
        self._output.add(relayed)
        return write, relayed

    def started(self) -> None:
        """Close our copies of the descriptors: while they are open the output has no end."""
        for descriptor in self._opened:
            os.close(descriptor)
        self._opened.clear()

    async def finish(self) -> None:
        """Wait until the worker's output is read. A grandchild may still hold a pipe open: the pipe
        is read on without waiting for it."""
        for stream in self._streams:
            self._output.worker_ended(stream)
        ends = [asyncio.wrap_future(stream.ended) for stream in self._streams]
        if ends:
            await asyncio.wait(ends, timeout=1.0)

    def last_output(self) -> str:
        """The last lines of stderr. May read the end of a file."""
        if self._stderr is not None:
            return last_lines(self._stderr.kept)
        words = last_lines(read_end(self.folder / "stderr.log", KEPT_BYTES))
        return f"{words}\nThe disk of {self.folder} is full." if _is_full(self.folder) else words


def _is_full(folder: Path) -> bool:
    try:
        return os.statvfs(folder).f_bavail == 0
    except OSError:
        return False


def last_lines(data: bytes) -> str:
    """The last lines as a terminal shows them: for a redrawn line, its last state."""
    lines = data.decode(errors="replace").replace("\r\n", "\n").rstrip("\r\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines[-KEPT_LINES:])


def read_end(path: Path, size: int) -> bytes:
    """The last bytes of a file of any length; empty if it is not a regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return b""
        return os.pread(descriptor, size, max(0, found.st_size - size))
    except OSError:
        return b""
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class LogRoot:
    """The folder for all files of one agent's workers."""

    path: Path
    remove: Callable[[], None] = lambda: None
    """Removes the folder if it is temporary."""


def attempt_folder(root: Path, round_number: int, local_rank: int) -> Path:
    """Create the folder for one worker's files in one round, in torchrun's layout. If that fails,
    the error is logged and training continues."""
    folder = root / f"attempt_{round_number - 1}" / str(local_rank)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        log.error("cannot create %s for a worker's files: %s", folder, error.strerror)
    return folder


def log_root(routing: LogRouting, run_id: str) -> LogRoot:
    """Create a folder for this run, below the user's choice or a temporary one."""
    where = routing.folder or tempfile.gettempdir()
    try:
        if routing.folder is not None:
            return LogRoot(_kept_root(routing.folder, run_id))
        folder = TemporaryFolder.make()
        return LogRoot(folder.path, remove=folder.remove)
    except OSError as error:
        raise StreamsError(f"--log-dir {where}: {error.strerror}") from None


def _kept_root(folder: Path, run_id: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in run_id)[:64]
    return Path(tempfile.mkdtemp(prefix=f"{safe}_", dir=folder))
