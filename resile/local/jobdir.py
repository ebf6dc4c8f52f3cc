"""A job's folder on this machine: written by `resile up`, read by all other commands.

``<state_home>/jobs/<name>`` holds the token, the socket of the job's API (``api.sock``), the
master's endpoint, store and log, the nodes' logs, the last view of the job (``job.json``,
written before anything in it is acted on), the users' requests (``requests.json``) and its events
(``events.jsonl``). It stays when the job is over, until `resile delete` or the next `up` of that
name. ``ledger`` and ``ports.json`` survive the next `up`, which may continue the training of the
last one and whose nodes get the same ports. ``addresses.json`` holds the addresses of all nodes.
``up.lock`` is locked while the job's `up` runs: the kernel releases it however that ends, which
distinguishes a job whose `up` was killed from one that is running.

JobDirError
├── JobRunning       another `up` runs the job
└── FolderUnusable   it cannot be created, read or written
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from resile.decoding import DecodeError, convert, decode_json
from resile.job.view import JobView
from resile.launch.state_dir import RUN_FILES, state_home
from resile.ledger.lines import ENDING
from resile.local.api_socket import SOCKET
from resile.local.log_files import list_logs, read_piece
from resile.local.ports import PortAllocator, read_ports
from resile.system.processes import is_locked
from resile.system.regular_files import read_end, read_regular_file
from resile.wire.auth import new_token, write_private
from resile.wire.endpoint import Endpoint
from resile.wire.views import EventView, LogFile

__all__ = ["FolderUnusable", "JobDir", "JobDirError", "JobRunning", "Requests", "all_jobs"]

OWN_FILES = (
    *RUN_FILES,
    *("endpoint", "job.json", "job.json.new", "events.jsonl"),
    *(SOCKET, "requests.json", "requests.json.new"),
    *("addresses.json", "addresses.json.new"),
)
"""All files in a job's folder besides the lock, the logs, the ledger and the ports."""

PORT_FILES = ("ports.json", "ports.json.new")
PORTS_LOCK = "ports.lock"
"""The lock beside the jobs' folders that is held while ports are chosen."""

LARGEST_REQUESTS = 1 << 20
LARGEST_VIEW = 64 << 20
LONGEST_STORY = 16 << 20
"""Maximum bytes read of each: a job of 10,000 nodes needs a tenth of that."""

LOCK_TRIES, LOCK_PAUSE = 20, 0.02
"""Retries: a check whether a job is running holds its lock for an instant."""


class JobDirError(Exception):
    """Base of all errors of a job's folder."""


class JobRunning(JobDirError):
    """Another `up` runs this job."""

    def __init__(self, name: str, pid: str) -> None:
        super().__init__(f"the job '{name}' is already running (pid {pid})")


class FolderUnusable(JobDirError):
    """The folder cannot be created, read or written."""


class Requests(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The users' requests to a job: ``requests.json``."""

    sizes: dict[str, int] = msgspec.field(default_factory=dict)
    """The requested sizes by role."""

    suspend: bool | None = None
    """True to suspend the job, False to resume it; None without a request: the manifest counts."""

    deleting: bool = False


class JobDir:
    """The folder of one job. Reading it needs nothing; writing it needs :meth:`hold`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = state_home() / "jobs" / name
        self.token_file = self.path / "token"
        self.logs = self.path / "logs"
        self.ledger = self.path / "ledger"
        self.master_log = self.path / "master.log"
        self.addresses = self.path / "addresses.json"
        self._view = self.path / "job.json"
        self._events = self.path / "events.jsonl"
        self._requests = self.path / "requests.json"
        self._endpoint = self.path / "endpoint"
        self._lock = self.path / "up.lock"

    # --- reading ----------------------------------------------------------------------------

    def exists(self) -> bool:
        """Return whether there is, or was, such a job."""
        return self._lock.exists()

    def running(self) -> bool:
        """Return whether an `up` runs the job."""
        return is_locked(self._lock)

    def view(self) -> JobView | None:
        """Return the last view that was written; None if there is none."""
        try:
            return _view(read_regular_file(self._view, limit=LARGEST_VIEW))
        except (OSError, DecodeError):
            return None

    def events(self, *, since: int = 0) -> list[EventView]:
        """Return the events that were written; a line that was truncated by a crash or damaged is
        skipped, and so is everything before the last ``LONGEST_STORY`` bytes."""
        try:
            lines = read_end(self._events, limit=LONGEST_STORY).splitlines()
        except OSError:
            return []
        return [event for line in lines if (event := _event(line)) and event.seq > since]

    def requests(self) -> Requests:
        """Return the users' requests; none if they cannot be read."""
        try:
            return decode_json(read_regular_file(self._requests, limit=LARGEST_REQUESTS), Requests)
        except (OSError, DecodeError):
            return Requests()

    def requests_of_a_killed_up(self) -> Requests:
        """Return the users' requests to the last `up` of this job if it was killed; else none."""
        view = self.view()
        ended = view is None or view.ended or (view.status and view.status.finished)
        return Requests() if ended else self.requests()

    def log_files(self) -> list[LogFile]:
        """Return the log files of all nodes."""
        return list_logs(self.logs)

    def log(self, node: str, *, offset: int = 0) -> bytes:
        """Return a chunk of a node's output; raises FileNotFoundError if there is none."""
        return read_piece(self.logs, node, offset=offset)

    def ports_of_others(self) -> set[int]:
        """Return the ports of this user's other running jobs on this machine."""
        others = (job for job in all_jobs() if job.name != self.name and job.running())
        found = (read_ports(job.path / PORT_FILES[0]) for job in others)
        return {port for ports in found for named in ports.values() for port in named.values()}

    # --- writing ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Lock the folder: no other process runs or removes the job meanwhile."""
        descriptor = self._take_lock()
        try:
            yield
        finally:
            os.close(descriptor)

    def begin(self) -> str:
        """Remove an earlier job of this name and prepare the folder; returns a new token."""
        token = new_token()
        with self.usable():
            self._empty()
            self.logs.mkdir(mode=0o700, exist_ok=True)
            write_private(self.token_file, token)
        return token

    def write_endpoint(self, endpoint: Endpoint) -> None:
        """Write the address of the master, for tools that read its metrics."""
        with self.usable():
            self._endpoint.write_text(f"{endpoint}\n")

    def write_view(self, view: JobView) -> None:
        """Replace the view; a reader sees the old or the new one, never a part."""
        self._replace(self._view, msgspec.json.encode(view))

    def write_requests(self, requests: Requests) -> None:
        """Replace the users' requests; they are on disk when this returns."""
        self._replace(self._requests, msgspec.json.encode(requests), sync=True)

    def write_addresses(self, text: bytes) -> None:
        """Replace the nodes' addresses atomically."""
        self._replace(self.addresses, text)

    def port_book(self) -> PortAllocator:
        """Return the ports of the job's ranks."""
        return PortAllocator(
            self.path / PORT_FILES[0],
            lock=self.path.parent / PORTS_LOCK,
            others=self.ports_of_others,
        )

    def append_events(self, events: Iterable[EventView]) -> None:
        """Append events to the history."""
        with self.usable(), open(self._events, "ab") as file:
            file.writelines(msgspec.json.encode(event) + b"\n" for event in events)

    def remove(self) -> None:
        """Delete the job's files. By name and never recursively: other files are not ours."""
        with self.usable():
            self._empty()
            _clear(self.ledger, f"*{ENDING}")
            for name in PORT_FILES:
                (self.path / name).unlink(missing_ok=True)
            self._lock.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self.path.rmdir()

    def _empty(self) -> None:
        _clear(self.logs, "*.log")
        for name in OWN_FILES:
            (self.path / name).unlink(missing_ok=True)

    def _replace(self, file: Path, content: bytes, *, sync: bool = False) -> None:
        draft = file.with_name(f"{file.name}.new")
        with self.usable():
            with open(draft, "wb") as written:
                written.write(content)
                if sync:
                    written.flush()
                    os.fsync(written.fileno())
            draft.replace(file)

    @contextlib.contextmanager
    def usable(self) -> Iterator[None]:
        """Turn OSError into FolderUnusable, which the user has to fix."""
        try:
            yield
        except OSError as error:
            raise FolderUnusable(_complaint(self.path, error)) from None

    def _take_lock(self) -> int:
        owner = ""
        for _ in range(LOCK_TRIES):
            with self.usable():
                self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
                descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
                if _locked(descriptor) and self._is_still_there(descriptor):
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
                    return descriptor
                owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
                os.close(descriptor)
            time.sleep(LOCK_PAUSE)
        raise JobRunning(self.name, owner or "unknown")

    def _is_still_there(self, descriptor: int) -> bool:
        """Return False if the lock was removed with its folder while we waited for it."""
        try:
            return self._lock.stat().st_ino == os.fstat(descriptor).st_ino
        except FileNotFoundError:
            return False


def _view(data: bytes) -> JobView:
    try:
        return decode_json(data, JobView)
    except DecodeError:
        # Before the view had a version, its training had another shape; the rest is the same.
        older = decode_json(data, dict[str, Any])
        return convert({**older, "training": None, "groups": {}}, JobView)


def _event(line: bytes) -> EventView | None:
    try:
        return decode_json(line, EventView)
    except DecodeError:
        return None


def all_jobs() -> list[JobDir]:
    """Return the folders of all jobs of this user on this machine, sorted by name."""
    try:
        names = sorted(entry.name for entry in os.scandir(state_home() / "jobs") if entry.is_dir())
    except OSError:
        return []
    return [folder for folder in map(JobDir, names) if folder.exists()]


def _clear(folder: Path, pattern: str) -> None:
    """Remove our files in a folder, and then the folder if it is empty."""
    for file in folder.glob(pattern):
        file.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _complaint(path: Path, error: OSError) -> str:
    return f"the folder {path} cannot be used: {error.strerror}; set $RESILE_HOME to another folder"
