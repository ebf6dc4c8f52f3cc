"""Be last in every queue: what this process does can wait for training, and never the reverse.

Not the scheduler's idle class: on a node whose cores are all busy that may mean never, and then no
copy of a snapshot would leave it. At nice 19 it gets about a hundredth of a busy core.
"""

from __future__ import annotations

import contextlib
import os

import psutil

__all__ = ["be_last"]


def be_last() -> None:
    """The lowest ordinary priority for the CPU, the idle one for the disk; threads inherit both."""
    with contextlib.suppress(OSError):
        os.nice(19)
    if hasattr(psutil, "IOPRIO_CLASS_IDLE"):
        with contextlib.suppress(OSError, psutil.Error):
            psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
