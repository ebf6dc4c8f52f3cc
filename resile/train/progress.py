"""Report how far training has come: one call a step, never in the way.

The report goes to this node's agent as a datagram that nobody waits for. Outside of Resile it does
nothing, so a script may call it always.
"""

from __future__ import annotations

import json
import math
import os
import socket

__all__ = ["report", "report_resumed", "report_unasked"]

LARGEST_STEP = 2**63 - 1
"""What travels to the master has 64 bits."""

_socket: socket.socket | None = None
_owner = 0
_script_reports = False


def report(step: int, loss: float | None = None, *, total: int | None = None) -> None:
    """Say that ``step`` is done; shown by `resile describe`, the live view and /metrics.

    ``total``: how many steps there will be in all, for the share that is done and the time left.
    What is left out stays what it was, so a loss may be given now and then; one that is not finite
    is not shown. Raises ValueError for a step or total that is none: below 0, or beyond 63 bits.
    """
    global _script_reports
    _script_reports = True
    for name, number in (("step", step), ("total", total)):
        if number is not None and not 0 <= int(number) <= LARGEST_STEP:
            raise ValueError(
                f"report({name}={number}): a number from 0 to {LARGEST_STEP} is wanted"
            )
    said: dict[str, int | float | None] = {"step": int(step)}
    if loss is not None:
        said["loss"] = float(loss) if math.isfinite(loss) else None
    if total is not None:
        said["total"] = int(total)
    _send(**said)


def report_unasked(step: int) -> None:
    """The same for a Checkpointer's step, unless the script itself reports."""
    if not _script_reports and 0 <= step <= LARGEST_STEP:
        _send(step=step)


def report_resumed(step: int, source: str) -> None:
    """Say that training goes on with ``step``, restored from ``source``."""
    _send(resumed=step, source=source)


def _send(**said: int | float | str | None) -> None:
    name = os.environ.get("RESILE_PROGRESS_SOCKET")
    if not name:
        return
    message = {"round": int(os.environ.get("RESILE_ROUND", "0")), **said}
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
