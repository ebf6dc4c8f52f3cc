"""The writer process: ``python -m resile.checkpoint.writing DESCRIPTOR die|finish``.

It receives orders on a socket and ends with its owner, whose end of the socket closes however the
owner dies: at once, or (``finish``) when all its write orders are done. A parent-death signal would
be simpler, but the kernel sends it at the end of the parent's *thread*. A forked child of the owner
may keep the socket open, so the parent's pid is checked as well.
"""

from __future__ import annotations

import os
import signal
import socket
import sys

from resile.checkpoint import packets
from resile.checkpoint.writing.messages import Numbered
from resile.checkpoint.writing.priority import be_last
from resile.checkpoint.writing.work import Work
from resile.decoding import MsgpackDecoder

PARENT_INTERVAL = 1.0
"""Seconds between two checks of the parent's pid; the end of the socket is noticed at once."""


def main() -> None:
    """Carry out orders until the owner is gone."""
    descriptor, end = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    be_last()
    line = socket.socket(fileno=int(descriptor))
    work = Work(line)
    _listen(line, work)
    if end == "finish":
        work.finish()
    os._exit(0)  # whatever else still runs has no owner left


def _listen(line: socket.socket, work: Work) -> None:
    parent = os.getppid()
    line.settimeout(PARENT_INTERVAL)
    decoder = MsgpackDecoder[Numbered](Numbered)
    while os.getppid() == parent:
        try:
            received = packets.receive(line, decoder)
        except TimeoutError:
            continue
        except OSError:
            return
        if received is None:
            return
        message, descriptors = received
        work.begin(message.number, message.order, descriptors)


if __name__ == "__main__":
    main()
