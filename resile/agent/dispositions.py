"""What a worker does with a signal, as the kernel knows it: catches it, ignores it, or neither.

Read from /proc, so it needs nothing of the script; where there is no /proc, nothing is known.
"""

from __future__ import annotations

import signal
from enum import Enum, auto
from pathlib import Path

__all__ = ["Disposition", "disposition"]


class Disposition(Enum):
    """What becomes of a signal."""

    DEFAULT = auto()
    """The kernel does what it does by default, or nothing is known."""

    CAUGHT = auto()
    """The program has a handler."""

    IGNORED = auto()


def disposition(pid: int, number: signal.Signals) -> Disposition:
    """What the process does with this signal at the moment."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return Disposition.DEFAULT
    return of_status(status, number)


def of_status(status: str, number: signal.Signals) -> Disposition:
    """The same, from the text of /proc/PID/status. Masks have bit n - 1 set for signal n."""
    masks = dict(line.split(":", 1) for line in status.splitlines() if line.startswith("Sig"))
    for field, found in (("SigCgt", Disposition.CAUGHT), ("SigIgn", Disposition.IGNORED)):
        if int(masks.get(field, "0"), 16) >> (number - 1) & 1:
            return found
    return Disposition.DEFAULT
