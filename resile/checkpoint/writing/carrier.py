"""The owner's handle to the carrier's process: orders out, words back, started again if it dies.

The process is started with the first order. If it is killed, the next one takes over what it was
told to write (a part is on storage whole or not at all, so writing it twice does no harm); bytes
that were on their way to or from a peer are given up: nobody knows how many of them arrived.

Everything here may be called from any thread. Words are delivered on a thread of the handle.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from resile.checkpoint import packets
from resile.checkpoint.writing.messages import (
    Failed,
    Finished,
    Numbered,
    Order,
    Progress,
    Stop,
    Told,
    Write,
    Written,
)
from resile.decoding import MsgpackDecoder
from resile.system.exit_status import describe_exit

__all__ = ["Carrier"]

MOST_DEATHS = 3
"""Of the process over the same order: then it is the order that kills it."""

END_LIMIT = 5.0
"""Seconds that a killed process may take to go; one that hangs in the kernel never does."""

Hear = Callable[[Finished | Progress], None]


@dataclass
class _Pending:
    order: Order
    descriptors: list[int]
    hear: Hear
    deaths: int = 0

    def settle(self) -> None:
        """The process has what it needs no more: let the slots go."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []


@dataclass
class _Process:
    child: subprocess.Popen[bytes]
    line: socket.socket
    gone: threading.Event = field(default_factory=threading.Event)


class Carrier:
    """One carrier. ``outlives``: it finishes what it was told to write when its owner is dead."""

    def __init__(self, *, outlives: bool = False) -> None:
        self._outlives = outlives
        self._process: _Process | None = None
        self._pending: dict[int, _Pending] = {}
        self._numbers = 0
        self._closed = False
        self._lock = threading.Lock()
        _carriers.add(self)

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one."""
        process = self._process
        return process.child.pid if process else None

    def submit(self, order: Order, descriptors: Sequence[int], hear: Hear) -> int:
        """Give an order. The descriptors are the carrier's now; ``hear`` gets every word on it.

        Returns the order's number.
        """
        pending = _Pending(order, list(descriptors), hear)
        with self._lock:
            self._numbers += 1
            number = self._numbers
            if self._closed:
                failure: Failed | None = Failed(reason="the job is ending")
            else:
                self._pending[number] = pending
                failure = self._send(number)
        if failure is not None:
            pending.settle()
            hear(failure)
        return number

    def stop(self, number: int) -> None:
        """Have bytes that are being moved stop where they are; see :class:`Stop`."""
        with self._lock, contextlib.suppress(OSError):
            if self._process is not None and number in self._pending:
                packets.send(self._process.line, Numbered(number, Stop()))

    @property
    def writes(self) -> bool:
        """Whether parts are still to be written."""
        with self._lock:
            return any(not _only_publishes(one.order) for one in self._orders())

    @property
    def publishes(self) -> bool:
        """Whether checkpoints are still to be published, or parts of them to be written."""
        with self._lock:
            return bool(self._orders())

    def close(self) -> None:
        """End. A carrier that outlives its owner finishes first, but nobody waits for it."""
        with self._lock:
            self._closed = True
            process, self._process = self._process, None
            pending, self._pending = list(self._pending.values()), {}
        for one in pending:
            one.settle()
            if not self._outlives or not isinstance(one.order, Write):
                one.hear(Failed(reason="the job ended before it was done"))
        if process is not None:
            _part(process) if self._outlives else _end(process)

    def let_go(self) -> None:
        """For a forked child: close everything, since it can have no use for it."""
        pending, self._pending = list(self._pending.values()), {}
        process, self._process = self._process, None
        self._closed = True
        for one in pending:
            one.settle()
        if process is not None:
            process.line.close()

    def _orders(self) -> list[_Pending]:
        return [one for one in self._pending.values() if isinstance(one.order, Write)]

    def _send(self, number: int) -> Failed | None:
        pending = self._pending[number]
        try:
            if self._process is None:
                self._process = self._start()
            packets.send(self._process.line, Numbered(number, pending.order), pending.descriptors)
        except BrokenPipeError:
            return None  # it is dead, and the thread that reads from it will see to the rest
        except OSError as error:
            del self._pending[number]
            return Failed(reason=f"the process that writes cannot be started: {error.strerror}")
        return None

    def _start(self) -> _Process:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        end = "finish" if self._outlives else "die"
        module = __name__.rpartition(".")[0]
        with theirs:
            try:
                child = subprocess.Popen(
                    [sys.executable, "-m", module, str(theirs.fileno()), end],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                raise
        process = _Process(child, ours)
        threading.Thread(
            target=self._read, args=(process,), name="resile-carrier", daemon=True
        ).start()
        return process

    def _read(self, process: _Process) -> None:
        decoder = MsgpackDecoder[Told](Told)
        with contextlib.suppress(OSError):
            while (received := packets.receive(process.line, decoder)) is not None:
                self._heard(received[0])
        code = process.child.wait()
        process.gone.set()
        self._died(process, code)
        process.line.close()  # not before: until then an order may still be sent on it in vain

    def _heard(self, told: Told) -> None:
        with self._lock:
            pending = self._pending.get(told.number)
            if pending is None or _is_told(pending.order, told.word):
                return
            if not isinstance(told.word, Progress):
                self._advance(told.number, pending, told.word)
        pending.hear(told.word)

    def _advance(self, number: int, pending: _Pending, word: Finished) -> None:
        pending.settle()
        order = pending.order
        if isinstance(word, Written) and isinstance(order, Write) and order.publication:
            pending.order = msgspec.structs.replace(order, lengths=())
        else:
            del self._pending[number]

    def _died(self, process: _Process, code: int) -> None:
        """Go on with another process, where there is something to go on with."""
        lost: list[tuple[_Pending, Failed]] = []
        with self._lock:
            if self._process is not process:
                return
            self._process = None
            for number, pending in list(self._pending.items()):
                pending.deaths += 1
                failure: Failed | None = Failed(
                    reason=f"the process that writes {describe_exit(code)}"
                )
                if isinstance(pending.order, Write) and pending.deaths < MOST_DEATHS:
                    failure = self._send(number)
                if failure is not None:
                    self._pending.pop(number, None)
                    pending.settle()
                    lost.append((pending, failure))
        for pending, failure in lost:
            pending.hear(failure)


_carriers: weakref.WeakSet[Carrier] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A forked child must not keep slots locked that its parent has let go: without an agent the
    trainer itself has a carrier, and its data loaders fork."""
    for carrier in list(_carriers):
        carrier.let_go()


os.register_at_fork(after_in_child=_let_go_in_child)


def _part(process: _Process) -> None:
    """Let it finish alone. Closing would not do: the thread that reads keeps the socket alive."""
    with contextlib.suppress(OSError):
        process.line.shutdown(socket.SHUT_WR)


def _end(process: _Process) -> None:
    with contextlib.suppress(OSError):
        process.line.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(ProcessLookupError):
        process.child.kill()
    process.gone.wait(END_LIMIT)


def _is_told(order: Order, word: Finished | Progress) -> bool:
    """Whether an earlier process has already said that this order's parts are written."""
    return isinstance(word, Written) and _only_publishes(order)


def _only_publishes(order: Order) -> bool:
    return isinstance(order, Write) and order.publication is not None and not order.lengths
