"""The log files of a job's nodes: one file per node in one folder, read in chunks.

A name is only ever looked up in that folder: anything that could lead out of it (a separator, a
leading dot, a symbolic link) is not a valid name of a node.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from resile.wire.views import LogFile

__all__ = ["PIECE", "list_logs", "read_piece"]

PIECE = 256 * 1024
"""Bytes: enough for a page of output, small enough not to delay other requests."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,250}")
_SUFFIX = ".log"


def list_logs(folder: Path) -> list[LogFile]:
    """List the log files of all nodes."""
    try:
        found = [entry for entry in os.scandir(folder) if entry.name.endswith(_SUFFIX)]
        files = [(e.name, e.stat().st_size) for e in found if e.is_file(follow_symlinks=False)]
    except OSError:
        return []
    files.sort(key=lambda file: _natural(file[0]))
    return [LogFile(node=name.removesuffix(_SUFFIX), size=size) for name, size in files]


def read_piece(folder: Path, node: str, *, offset: int) -> bytes:
    """Read a chunk of a node's output; raises FileNotFoundError for a node without output."""
    if not _NAME.fullmatch(node):
        raise FileNotFoundError(node)
    try:
        # O_NONBLOCK: opening a FIFO in that place would wait for its other end.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(folder / f"{node}{_SUFFIX}", flags)
        try:
            return os.pread(descriptor, PIECE, offset)
        finally:
            os.close(descriptor)
    except OSError:
        raise FileNotFoundError(node) from None


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that compares numbers as numbers: worker-9 comes before worker-10."""
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]
