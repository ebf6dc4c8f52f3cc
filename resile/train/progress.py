"""Report how far training has come: one call a step, never in the way.

The report goes to this node's agent as a datagram that nobody waits for. Outside of Resile it does
nothing, so a script may call it always.
"""

from __future__ import annotations

import json
import os
import socket

__all__ = ["report"]

_socket: socket.socket | None = None
_owner = 0


def report(step: int, loss: float | None = None) -> None:
    """Say that ``step`` is done; shown by `resile describe`, the live view and /metrics."""
    name = os.environ.get("RESILE_PROGRESS_SOCKET")
    if not name:
        return
    message = {
        "round": int(os.environ.get("RESILE_ROUND", "0")),
        "step": int(step),
        "loss": None if loss is None else float(loss),
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
