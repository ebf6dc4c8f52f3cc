"""The writer process: ``python -m resile.snapshots.writer DESCRIPTOR die|finish``.

It receives orders on a socket and ends with its owner, whose end of the socket closes however the
owner dies: at once, or (``finish``) when all its write orders are done. A parent-death signal would
be simpler, but the kernel sends it at the end of the parent's *thread*. A forked child of the owner
may keep the socket open, so the parent's pid is checked as well.

Its priority is below that of training. Where the kernel groups processes by session (autogroups,
the default of desktop kernels), nice values count only within a session, and this process is alone
in its own: there the group's nice value is set as well. The scheduler's idle class is not used: on
a node whose cores are all busy it may never run, and no copy of a snapshot would leave the node. At
nice 19 it gets about a hundredth of a busy core, which may be too little where other programs keep
all cores busy: $RESILE_WRITER_NICE sets another value, from 0 to 19.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from pathlib import Path

import psutil

from resile.decoding import MsgpackDecoder
from resile.snapshots import packets
from resile.snapshots.writer.loop import WriterLoop
from resile.snapshots.writer.messages import Numbered

NICE_VARIABLE = "RESILE_WRITER_NICE"
LOWEST_PRIORITY = 19


def lower_priority() -> None:
    """Set the nice value for the CPU and the idle class for the disk; threads inherit both."""
    value = _nice_value(os.environ.get(NICE_VARIABLE, ""))
    with contextlib.suppress(OSError):
        os.nice(value)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(value), encoding="ascii")
    if hasattr(psutil, "IOPRIO_CLASS_IDLE"):
        with contextlib.suppress(OSError, psutil.Error):
            psutil.Process().ionice(psutil.IOPRIO_CLASS_IDLE)


def _nice_value(text: str) -> int:
    """Parse the variable's value; empty means the lowest priority, and so does an invalid one."""
    if text.isdecimal() and int(text) <= LOWEST_PRIORITY:
        return int(text)
    if text:
        print(
            f"resile: ${NICE_VARIABLE}={text}: expected a number from 0 to {LOWEST_PRIORITY}; "
            f"using {LOWEST_PRIORITY}",
            file=sys.stderr,
            flush=True,
        )
    return LOWEST_PRIORITY


PARENT_INTERVAL = 1.0
"""Seconds between two checks of the parent's pid; the end of the socket is noticed at once."""


def main() -> None:
    """Carry out orders until the owner is gone."""
    descriptor, end = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    lower_priority()
    line = socket.socket(fileno=int(descriptor))
    work = WriterLoop(line)
    _listen(line, work)
    if end == "finish":
        work.finish()
    os._exit(0)  # whatever else still runs has no owner left


def _listen(line: socket.socket, work: WriterLoop) -> None:
    """Take orders until the owner is gone, and those that it had sent before it died.

    An owner that dies with answers unread resets the connection: the kernel reports that once, and
    before the orders that are still queued.
    """
    parent = os.getppid()
    line.settimeout(PARENT_INTERVAL)
    decoder = MsgpackDecoder[Numbered](Numbered)
    while True:
        if os.getppid() != parent:
            line.settimeout(0)
        try:
            received = packets.receive(line, decoder)
        except (TimeoutError, ConnectionResetError):
            continue
        except OSError:
            return
        if received is None:
            return
        message, descriptors = received
        work.begin(message.number, message.order, descriptors)


if __name__ == "__main__":
    main()
