"""The ports of a job's ranks on this machine: chosen once, and kept as long as the job's folder.

A rank has the same ports for all its nodes, so that a replacement listens where its predecessor
did. They are written into the job's folder before they are used, and the next `up` of the job
reuses them. Another program may still listen there first; three things make it unlikely. Ports are
outside of the range from which the kernel takes those of outgoing connections, if that leaves
enough. Two jobs of one user never choose the same ones, because they choose one after the other and
exclude each other's. And a port that is in use when its first node is about to start is replaced.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import random
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

import msgspec

from resile.decoding import DecodeError, decode_json
from resile.job.addresses import LOOPBACK
from resile.local.errors import NoPortError
from resile.system.regular_files import read_regular_file
from resile.wire.endpoint import DEFAULT_PORT

__all__ = ["PortAllocator", "Slot", "candidates", "is_free", "kernel_range", "read_ports"]

Slot = tuple[str, int]
"""A role and a rank."""

LOWEST = 10_000
"""The lowest port to choose: below it are the ports of well-known services."""

HIGHEST = 65_535

ENOUGH = 1_000
"""Ports that must remain outside of the kernel's own range, else all above LOWEST are used."""

USUAL_PORTS = frozenset({DEFAULT_PORT, 29_500})
"""The default ports of our master and of torchrun's store."""

KERNEL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LARGEST_FILE = 16 << 20


class _Written(msgspec.Struct, frozen=True):
    """The file: port numbers by role, rank and name."""

    ports: dict[str, dict[int, dict[str, int]]]


class PortAllocator:
    """The ports of one job."""

    def __init__(
        self, file: Path, *, lock: Path, others: Callable[[], Collection[int]] = frozenset
    ) -> None:
        """``file``: the job's own; ``lock``: shared by all jobs while they choose ports;
        ``others``: returns the ports of other jobs."""
        self._file, self._lock, self._others = file, lock, others
        self._ports = read_ports(file)
        self._started: set[Slot] = set()

    @property
    def ports(self) -> Mapping[Slot, Mapping[str, int]]:
        """All ports chosen so far."""
        return self._ports

    def reserve(self, wanted: Mapping[Slot, Collection[str]]) -> None:
        """Assign ports with exactly these names to each slot; choose those that are missing. Raises
        :class:`NoPortError` if there are none left, and OSError if they cannot be written."""
        missing: dict[Slot, list[str]] = {}
        for slot, names in wanted.items():
            known = self._ports.get(slot, {})
            self._ports[slot] = {name: known[name] for name in names if name in known}
            missing[slot] = [name for name in names if name not in known]
        self._choose(missing)

    def starting(self, slot: Slot) -> None:
        """Prepare for a node of that slot. If it is the first, ports that are in use are replaced;
        a replacement node gets the ports of its predecessor."""
        if slot not in self._started:
            self._started.add(slot)
            known = self._ports.setdefault(slot, {})
            self._choose({slot: [name for name, port in known.items() if not is_free(port)]})

    def _choose(self, missing: Mapping[Slot, Collection[str]]) -> None:
        if not any(missing.values()):
            return
        with _alone(self._lock):
            free = self._free_ports()
            for slot, names in missing.items():
                self._ports[slot] |= {name: next(free) for name in names}
            self._write()

    def _free_ports(self) -> Iterator[int]:
        taken = {port for each in self._ports.values() for port in each.values()}
        usable = [port for port in candidates(kernel_range()) if port not in taken]
        others = frozenset(self._others())
        random.shuffle(usable)
        for port in usable:
            if port not in others and is_free(port):
                yield port
        raise NoPortError(f"no port from {LOWEST} to {HIGHEST} is free on this machine")

    def _write(self) -> None:
        ports: dict[str, dict[int, dict[str, int]]] = {}
        for (role, rank), named in self._ports.items():
            ports.setdefault(role, {})[rank] = named
        draft = self._file.with_name(f"{self._file.name}.new")
        draft.write_bytes(msgspec.json.encode(_Written(ports)))
        draft.replace(self._file)


def read_ports(file: Path) -> dict[Slot, dict[str, int]]:
    """Read the ports in a job's file; empty if there is none, or it cannot be decoded."""
    try:
        written = decode_json(read_regular_file(file, limit=LARGEST_FILE), _Written)
    except (OSError, DecodeError):
        return {}
    by_role = written.ports.items()
    return {(role, rank): named for role, ranks in by_role for rank, named in ranks.items()}


def candidates(kernel: tuple[int, int]) -> list[int]:
    """Return the ports to choose from; ``kernel``: the range that the kernel uses itself."""
    first, last = kernel
    everything = [port for port in range(LOWEST, HIGHEST + 1) if port not in USUAL_PORTS]
    outside = [port for port in everything if not first <= port <= last]
    return outside if len(outside) >= ENOUGH else everything


def kernel_range() -> tuple[int, int]:
    """Return the first and last port of outgoing connections; Linux' default if unreadable."""
    try:
        first, last = map(int, KERNEL_RANGE.read_text().split())
    except (OSError, ValueError):
        return 32_768, 60_999
    return first, last


def is_free(port: int) -> bool:
    """Return whether a server could listen on ``port``, even shortly after another one did."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Hold the lock: one job chooses at a time."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
