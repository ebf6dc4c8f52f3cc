"""Lower the priority of the writer process below that of training.

Where the kernel groups processes by session (autogroups, the default of desktop kernels), nice
values count only within a session, and this process is alone in its own: there the group's nice
value is set as well.

The scheduler's idle class is not used: on a node whose cores are all busy it may never run, and no
copy of a snapshot would leave the node. At nice 19 it gets about a hundredth of a busy core.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import psutil

__all__ = ["be_last"]


def be_last() -> None:
    """Set nice 19 for the CPU and the idle class for the disk; threads inherit both."""
    with contextlib.suppress(OSError):
        os.nice(19)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("19", encoding="ascii")
    if hasattr(psutil, "IOPRIO_CLASS_IDLE"):
        with contextlib.suppress(OSError, psutil.Error):
            psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)
