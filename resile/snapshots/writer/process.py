"""The owner's handle to the writer process: sends orders, receives answers, restarts it if it dies.

The process is started with the first order. If it is killed, the next process takes over its write
orders (a part appears on storage complete or not at all, so writing it twice does no harm);
transfers to or from a peer fail, since it is unknown how many bytes arrived.

Everything here may be called from any thread. Answers are delivered on a thread of the handle.
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

from resile.decoding import MsgpackDecoder
from resile.snapshots import packets
from resile.snapshots.writer.messages import (
    Failed,
    Finished,
    Numbered,
    Order,
    PartsWritten,
    StopTransfer,
    Write,
    WriteProgress,
    WriterAnswer,
)
from resile.system.processes import describe_exit

__all__ = ["WriterProcess"]

MOST_DEATHS = 3
"""Deaths of the process during the same order, after which the order is failed as their cause."""

END_LIMIT = 5.0
"""Seconds to wait for a killed process to exit; one that hangs in the kernel never does."""

Hear = Callable[[Finished | WriteProgress], None]


@dataclass
class _Pending:
    order: Order
    descriptors: list[int]
    hear: Hear
    deaths: int = 0

    def settle(self) -> None:
        """Release the slots: the process no longer needs them."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []


@dataclass
class _Process:
    child: subprocess.Popen[bytes]
    line: socket.socket
    gone: threading.Event = field(default_factory=threading.Event)


class WriterProcess:
    """A writer process. ``outlives``: it finishes its write orders after its owner's death."""

    def __init__(self, *, outlives: bool = False) -> None:
        self._outlives = outlives
        self._process: _Process | None = None
        self._pending: dict[int, _Pending] = {}
        self._numbers = 0
        self._closed = False
        self._lock = threading.Lock()
        _writers.add(self)

    @property
    def pid(self) -> int | None:
        """The pid of the process; None if it is not running."""
        process = self._process
        return process.child.pid if process else None

    def submit(self, order: Order, descriptors: Sequence[int], hear: Hear) -> int:
        """Send an order. Takes ownership of the descriptors; ``hear`` is called with every answer.

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
        """Stop a transfer; see :class:`StopTransfer`."""
        with self._lock, contextlib.suppress(OSError):
            if self._process is not None and number in self._pending:
                packets.send(self._process.line, Numbered(number, StopTransfer()))

    @property
    def writes(self) -> bool:
        """Whether parts remain to be written."""
        with self._lock:
            return any(not _only_publishes(one.order) for one in self._orders())

    @property
    def publishes(self) -> bool:
        """Whether checkpoints remain to be published, or parts to be written."""
        with self._lock:
            return bool(self._orders())

    def close(self) -> None:
        """End the process. With ``outlives`` it finishes first, without being waited for."""
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
        """In a forked child: close everything inherited from the parent."""
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
            return None  # it is dead; the reading thread handles the rest
        except OSError as error:
            del self._pending[number]
            return Failed(reason=f"cannot start the writer process: {error.strerror}")
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
            target=self._read, args=(process,), name="resile-writer", daemon=True
        ).start()
        return process

    def _read(self, process: _Process) -> None:
        decoder = MsgpackDecoder[WriterAnswer](WriterAnswer)
        with contextlib.suppress(OSError):
            while (received := packets.receive(process.line, decoder)) is not None:
                self._heard(received[0])
        code = process.child.wait()
        process.gone.set()
        self._died(process, code)
        process.line.close()  # not earlier: an order that nobody reads may still be sent on it

    def _heard(self, answer: WriterAnswer) -> None:
        with self._lock:
            pending = self._pending.get(answer.number)
            if pending is None or _is_told(pending.order, answer.word):
                return
            if not isinstance(answer.word, WriteProgress):
                self._advance(answer.number, pending, answer.word)
        pending.hear(answer.word)

    def _advance(self, number: int, pending: _Pending, word: Finished) -> None:
        pending.settle()
        order = pending.order
        if isinstance(word, PartsWritten) and isinstance(order, Write) and order.publication:
            pending.order = msgspec.structs.replace(order, lengths=())
        else:
            del self._pending[number]

    def _died(self, process: _Process, code: int) -> None:
        """Start another process for the pending write orders; fail the other orders."""
        lost: list[tuple[_Pending, Failed]] = []
        with self._lock:
            if self._process is not process:
                return
            self._process = None
            for number, pending in list(self._pending.items()):
                pending.deaths += 1
                failure: Failed | None = Failed(reason=f"the writer process {describe_exit(code)}")
                if isinstance(pending.order, Write) and pending.deaths < MOST_DEATHS:
                    failure = self._send(number)
                if failure is not None:
                    self._pending.pop(number, None)
                    pending.settle()
                    lost.append((pending, failure))
        for pending, failure in lost:
            pending.hear(failure)


_writers: weakref.WeakSet[WriterProcess] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A forked child must not keep slots locked that its parent has released: without an agent the
    training script itself owns a writer process, and its data loaders fork."""
    for writer in list(_writers):
        writer.let_go()


os.register_at_fork(after_in_child=_let_go_in_child)


def _part(process: _Process) -> None:
    """Let it finish alone. Closing is not enough: the reading thread keeps the socket open."""
    with contextlib.suppress(OSError):
        process.line.shutdown(socket.SHUT_WR)


def _end(process: _Process) -> None:
    with contextlib.suppress(OSError):
        process.line.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(ProcessLookupError):
        process.child.kill()
    process.gone.wait(END_LIMIT)


def _is_told(order: Order, word: Finished | WriteProgress) -> bool:
    """Whether an earlier process already reported this order's parts as written."""
    return isinstance(word, PartsWritten) and _only_publishes(order)


def _only_publishes(order: Order) -> bool:
    return isinstance(order, Write) and order.publication is not None and not order.lengths
