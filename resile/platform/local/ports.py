"""The ports of a job's ranks on this machine: chosen once, and kept as long as the job is.

A rank has the same ports for all its nodes, so that a replacement listens where its predecessor
did. They are written into the job's folder before anybody is told of them, and the next `up` of the
job takes them up again. Nothing can keep another program from listening there first; three things
make it unlikely. Ports lie outside of the range from which the kernel takes those of outgoing
connections, if that leaves enough. Two jobs of one user never choose the same ones, because they
choose one after the other and look at each other's. And a port that is in use when its first node
is about to start is exchanged for another.
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
from resile.platform.local.errors import NoPortError
from resile.regular_files import read_regular_file
from resile.wire.endpoint import DEFAULT_PORT

__all__ = ["PortBook", "Slot", "candidates", "is_free", "kernel_range", "read_ports"]

Slot = tuple[str, int]
"""A role and a rank."""

LOWEST = 10_000
"""Below it are the ports of well-known services."""

HIGHEST = 65_535

ENOUGH = 1_000
"""Ports that must be left outside of the kernel's own range, else all above LOWEST are used."""

USUAL_PORTS = frozenset({DEFAULT_PORT, 29_500})
"""Where a master of ours and torchrun's store listen when nobody says where."""

KERNEL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LARGEST_FILE = 16 << 20


class _Written(msgspec.Struct, frozen=True):
    """The file: numbers by role, rank and name."""

    ports: dict[str, dict[int, dict[str, int]]]


class PortBook:
    """The ports of one job."""

    def __init__(
        self, file: Path, *, lock: Path, others: Callable[[], Collection[int]] = frozenset
    ) -> None:
        """``file`` is the job's own; ``lock`` is shared by all who choose ports, and ``others``
        gives the ports of other jobs."""
        self._file, self._lock, self._others = file, lock, others
        self._ports = read_ports(file)
        self._started: set[Slot] = set()

    @property
    def ports(self) -> Mapping[Slot, Mapping[str, int]]:
        """All that were chosen."""
        return self._ports

    def reserve(self, wanted: Mapping[Slot, Collection[str]]) -> None:
        """Have ports with just these names for each slot, and choose those that are missing. Raises
        :class:`NoPortError` if there are none left, and OSError if they cannot be kept."""
        missing: dict[Slot, list[str]] = {}
        for slot, names in wanted.items():
            known = self._ports.get(slot, {})
            self._ports[slot] = {name: known[name] for name in names if name in known}
            missing[slot] = [name for name in names if name not in known]
        self._choose(missing)

    def starting(self, slot: Slot) -> None:
        """A node of that slot is about to start. If it is the first, what is in use is exchanged;
        a replacement gets what its predecessor had."""
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
    """The ports in a job's file; none if there is no file, or what is in it cannot be read."""
    try:
        written = decode_json(read_regular_file(file, limit=LARGEST_FILE), _Written)
    except (OSError, DecodeError):
        return {}
    by_role = written.ports.items()
    return {(role, rank): named for role, ranks in by_role for rank, named in ranks.items()}


def candidates(kernel: tuple[int, int]) -> list[int]:
    """The ports to choose from, where the kernel takes those from ``kernel`` for itself."""
    first, last = kernel
    everything = [port for port in range(LOWEST, HIGHEST + 1) if port not in USUAL_PORTS]
    outside = [port for port in everything if not first <= port <= last]
    return outside if len(outside) >= ENOUGH else everything


def kernel_range() -> tuple[int, int]:
    """The first and the last port that outgoing connections have; Linux' default if not told."""
    try:
        first, last = map(int, KERNEL_RANGE.read_text().split())
    except (OSError, ValueError):
        return 32_768, 60_999
    return first, last


def is_free(port: int) -> bool:
    """Whether nobody listens on ``port``: a server could begin to, also soon after another."""
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
    """One chooser at a time."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
