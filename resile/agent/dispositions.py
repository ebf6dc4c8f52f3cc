"""The disposition of a signal in a worker: caught, ignored or default.

Read from /proc, so it needs no support by the script; without /proc it counts as default.
"""

from __future__ import annotations

import signal
from enum import Enum, auto
from pathlib import Path

__all__ = ["Disposition", "disposition"]


class Disposition(Enum):
    """How a process reacts to a signal."""

    DEFAULT = auto()
    """The kernel's default action, or unknown."""

    CAUGHT = auto()
    """The program has a handler."""

    IGNORED = auto()


def disposition(pid: int, number: signal.Signals) -> Disposition:
    """The present disposition of a signal in a process."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return Disposition.DEFAULT
    return of_status(status, number)


def of_status(status: str, number: signal.Signals) -> Disposition:
    """Read the disposition from /proc/PID/status. Masks have bit n - 1 set for signal n."""
    masks = dict(line.split(":", 1) for line in status.splitlines() if line.startswith("Sig"))
    for field, found in (("SigCgt", Disposition.CAUGHT), ("SigIgn", Disposition.IGNORED)):
        if int(masks.get(field, "0"), 16) >> (number - 1) & 1:
            return found
    return Disposition.DEFAULT
