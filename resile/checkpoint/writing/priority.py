"""Be last in every queue: what this process does can wait for training, and never the reverse.

Where the kernel groups processes by session (autogroups, usual on machines with a desktop's
kernel), nice values count within a session only, and this process is alone in its own: there the
group has to be nice.

Not the scheduler's idle class: on a node whose cores are all busy that may mean never, and then no
copy of a snapshot would leave it. At nice 19 it gets about a hundredth of a busy core.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil

__all__ = ["be_last"]


def be_last() -> None:
    """The lowest ordinary priority for the CPU, the idle one for the disk; threads inherit both."""
    with contextlib.suppress(OSError):
        os.nice(19)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("19", encoding="ascii")
    if hasattr(psutil, "IOPRIO_CLASS_IDLE"):
        with contextlib.suppress(OSError, psutil.Error):
            psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
