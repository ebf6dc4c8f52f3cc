"""Report how far training has come: one call a step, never in the way.

The report goes to this node's agent as a datagram that nobody waits for. Outside of Resile it does
nothing, so a script may call it always.
"""

from __future__ import annotations

import json
import math
import os
import socket

__all__ = ["report"]

LARGEST_STEP = 2**63 - 1
"""What travels to the master has 64 bits."""

_socket: socket.socket | None = None
_owner = 0


def report(step: int, loss: float | None = None) -> None:
    """Say that ``step`` is done; shown by `resile describe`, the live view and /metrics.

    Raises ValueError for a step that is none: below 0, or beyond 63 bits. A loss that is not finite
    is not shown.
    """
    number = int(step)
    if not 0 <= number <= LARGEST_STEP:
        raise ValueError(f"report(step={step}): a step from 0 to {LARGEST_STEP} is wanted")
    shown = None if loss is None or not math.isfinite(loss) else float(loss)
    name = os.environ.get("RESILE_PROGRESS_SOCKET")
    if not name:
        return
    message = {
        "round": int(os.environ.get("RESILE_ROUND", "0")),
        "step": number,
        "loss": shown,
    }
    try:
        _connected(name).send(json.dumps(message).encode())
    except OSError:
        # The agent is busy or gone: a lost report is no reason to lose a step.
        return


def _connected(name: str) -> socket.socket:
    """This process's socket; a forked child makes its own."""
    global _socket, _owner
    if _socket is None or _owner != os.getpid():
        _socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        _socket.setblocking(False)
        _socket.connect("\0" + name[1:] if name.startswith("@") else name)
        _owner = os.getpid()
    return _socket
