"""Two features of Linux' `prctl`: the parent-death signal, and child subreapers."""

from __future__ import annotations

import ctypes
import os
import signal

__all__ = ["adopt_orphans", "die_with"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def die_with(parent: int) -> None:
    """Let the kernel kill this process when its parent ends; at once, if it has already.

    The signal is tied to the parent's *thread* that forked: that thread must stay alive.
    """
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(128 + signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, instead of process 1."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, value, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl({option}): {os.strerror(number)}")
