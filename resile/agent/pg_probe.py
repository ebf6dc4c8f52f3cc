"""Detects workers that have reached the process group, by their connection to the round's store.

Read from /proc, so it needs no support by the script. Without /proc nothing is reported, and the
rule that uses it never applies. The kernel walks its whole table to list a network's connections
(milliseconds on a large machine, however few there are), so each network is read once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from resile.agent.workers import WorkerGroup

REACH_INTERVAL = 1.0
"""Seconds between two checks, until all workers have reached the process group."""

ESTABLISHED = "01"


@dataclass(frozen=True)
class ReachedRanks:
    """The ranks that were reported to the master in a round. Arguments ``pids``: the round's
    processes and their ranks."""

    round: int = 0
    reached: tuple[int, ...] = ()
    """Ranks."""

    def unreached(self, pids: Mapping[int, int]) -> dict[int, int]:
        """The processes of the other ranks. A rank that was reported is not checked again."""
        return {pid: rank for pid, rank in pids.items() if rank not in self.reached}

    def checked(self, pids: Mapping[int, int], port: int) -> ReachedRanks:
        """Return the state after a check of the connections to the store at ``port``."""
        return self.after(pids, connected_pids(self.unreached(pids), port))

    def after(self, pids: Mapping[int, int], connected: Collection[int]) -> ReachedRanks:
        """Return the state with these processes connected."""
        return replace(
            self, reached=tuple(sorted({*self.reached, *(pids[pid] for pid in connected)}))
        )


async def watch_reached_ranks(
    running: Callable[[], WorkerGroup | None],
    report: Callable[[tuple[int, ...], tuple[int, ...]], None],
) -> None:
    """Report the ranks that have reached the process group and those that have not, on each change.

    Not in the first second of a round, in which workers restore and need the CPU.
    """
    reported = ReachedRanks()
    while True:
        await asyncio.sleep(REACH_INTERVAL)
        group = running()
        if group is None or not group.pids:
            continue
        if reported.round != group.round:
            reported = ReachedRanks(group.round)
            continue
        now = reported.checked(group.pids, group.store_port)
        if now != reported:
            reported = now
            report(reported.reached, tuple(sorted(reported.unreached(group.pids).values())))


def connected_pids(pids: Iterable[int], port: int) -> set[int]:
    """The processes among ``pids`` that have a TCP connection to ``port`` of any host."""
    found: set[int] = set()
    networks: dict[str, set[str]] = {}
    for pid in pids:
        try:
            network = str(Path(f"/proc/{pid}/ns/net").readlink())
            if network not in networks:
                networks[network] = _inodes_towards(Path(f"/proc/{pid}/net"), port)
            if not networks[network].isdisjoint(_socket_inodes(pid)):
                found.add(pid)
        except OSError:
            continue
    return found


def _inodes_towards(folder: Path, port: int) -> set[str]:
    inodes = set()
    for name in ("tcp", "tcp6"):
        path = folder / name
        if not path.exists():
            continue
        for line in path.read_text().splitlines()[1:]:
            fields = line.split()
            remote_port = int(fields[2].rpartition(":")[2], 16)
            if remote_port == port and fields[3] == ESTABLISHED:
                inodes.add(fields[9])
    return inodes


def _socket_inodes(pid: int) -> set[str]:
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return inodes
