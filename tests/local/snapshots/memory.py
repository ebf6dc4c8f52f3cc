"""The processes that hold snapshot memory, as shown by the kernel."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from resile.snapshots.memory import MEMORY_NAME


def memory_files(pid: int) -> list[str]:
    """Snapshots' memory that a process has open or mapped."""
    folder = Path(f"/proc/{pid}")
    found = []
    try:
        for entry in (folder / "fd").iterdir():
            try:
                found.append(str(entry.readlink()))
            except OSError:
                continue
        found += (folder / "maps").read_text().splitlines()
    except OSError:
        return []
    return [one for one in found if MEMORY_NAME in one]


def holders(pids: Iterable[int]) -> list[int]:
    """The processes that hold snapshot memory."""
    return [pid for pid in pids if memory_files(pid)]
