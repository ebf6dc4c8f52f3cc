"""File locks (flock) as a sign of life: the kernel releases them when their process ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

__all__ = ["is_locked"]


def is_locked(file: Path) -> bool:
    """Whether a process holds the lock; False if there is no such file.

    It tries a shared lock, so that two concurrent checks do not mistake each other for the holder.
    """
    try:
        descriptor = os.open(file, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
