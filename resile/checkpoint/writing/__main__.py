"""The carrier's process: ``python -m resile.checkpoint.writing DESCRIPTOR die|finish``.

It is told what to do on a socket and ends with its owner, whose end of the socket closes however
it dies: at once, or (``finish``) when everything it was told to write is written. A kill signal
tied to the parent would be simpler, but the kernel sends it at the end of the parent's *thread*.
A forked child of the owner may keep the socket open, so the parent's number is watched as well.
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
"""How often it is looked whether the owner lives; the socket's end is noticed at once."""


def main() -> None:
    """Work until the owner is gone."""
    descriptor, end = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    be_last()
    line = socket.socket(fileno=int(descriptor))
    work = Work(line)
    _listen(line, work)
    if end == "finish":
        work.finish()
    os._exit(0)  # whatever else still runs has nobody left to work for


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
