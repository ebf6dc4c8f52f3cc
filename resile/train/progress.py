"""Report training progress: one call per step, which never blocks.

The report is sent to this node's agent as a datagram, without waiting for an answer. Outside of
Resile it does nothing, so a script can always call it.
"""

from __future__ import annotations

import json
import math
import os
import socket

__all__ = ["report", "report_resumed", "report_checkpointer_step"]

LARGEST_STEP = 2**63 - 1
"""Step numbers are 64-bit integers in the protocol with the master."""

_socket: socket.socket | None = None
_owner = 0
_script_reports = False


def report(step: int, loss: float | None = None, *, total: int | None = None) -> None:
    """Report that ``step`` is done; shown by `resile describe`, the live view and /metrics.

    ``total``: the number of steps of the whole training, for the share done and the time left.
    Omitted values keep their last value, so a loss may be given now and then; one that is not
    finite is not shown. Raises ValueError for a step or total below 0 or beyond 63 bits.
    """
    global _script_reports
    _script_reports = True
    for name, number in (("step", step), ("total", total)):
        if number is not None and not 0 <= int(number) <= LARGEST_STEP:
            raise ValueError(f"report({name}={number}): must be a number from 0 to {LARGEST_STEP}")
    said: dict[str, int | float | None] = {"step": int(step)}
    if loss is not None:
        said["loss"] = float(loss) if math.isfinite(loss) else None
    if total is not None:
        said["total"] = int(total)
    _send(**said)


def report_checkpointer_step(step: int) -> None:
    """Report a Checkpointer's step, unless the script itself reports."""
    if not _script_reports and 0 <= step <= LARGEST_STEP:
        _send(step=step)


def report_resumed(step: int, source: str) -> None:
    """Report that training resumes at ``step``, restored from ``source``."""
    _send(resumed=step, source=source)


def _send(**said: int | float | str | None) -> None:
    name = os.environ.get("RESILE_PROGRESS_SOCKET")
    if not name:
        return
    message = {"round": int(os.environ.get("RESILE_ROUND", "0")), **said}
    try:
        _connected(name).send(json.dumps(message).encode())
    except OSError:
        # The agent is busy or gone: a lost report must not cost a step.
        return


def _connected(name: str) -> socket.socket:
    """Return this process's socket; a forked child opens its own."""
    global _socket, _owner
    if _socket is None or _owner != os.getpid():
        _socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        _socket.setblocking(False)
        _socket.connect("\0" + name[1:] if name.startswith("@") else name)
        _owner = os.getpid()
    return _socket
