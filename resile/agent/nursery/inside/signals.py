"""Signal handling in a nursery, and its reversal in a forked child.

The nursery ignores the signals that a terminal or a supervisor sends to all processes (its agent
decides about the workers) and is woken through a pipe when a child dies. Both are installed only
after importing, so that a handler that a library installed is saved and restored in workers.

All signals are blocked across a fork. One that is sent to a new child stays pending until the child
has its own handlers, instead of being swallowed by the nursery's.
"""

import os
import signal
from types import FrameType

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

_RESET_BY_EXEC_CALLERS = ("SIGPIPE", "SIGXFZ", "SIGXFSZ")
"""Signals that the interpreter ignores and that a new program expects at their default."""


class SignalWakeup:
    """Owns the nursery's signal handling; `fileno` becomes readable when a child dies."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._former = {
            number: handler
            for number in (*_IGNORED, signal.SIGCHLD)
            # A handler that C code installed cannot be restored, so it has to stay.
            if (handler := signal.getsignal(number)) is not None
        }
        for number in self._former:
            signal.signal(number, _wake if number == signal.SIGCHLD else signal.SIG_IGN)
        self._former_wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def fileno(self) -> int:
        return self._read

    def drain(self) -> None:
        try:
            while os.read(self._read, 512):
                pass
        except BlockingIOError:
            pass

    def undo(self) -> None:
        """In a forked child: restore the former handlers."""
        signal.set_wakeup_fd(self._former_wakeup)
        for number, handler in self._former.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)


def fork() -> int:
    """Fork with all signals blocked; the child has to call `unblock`."""
    former = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    pid = os.fork()
    if pid:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)
    return pid


def unblock() -> None:
    """Unblock all signals. A pending interrupt kills a process whose script has not started."""
    if (
        signal.SIGINT in signal.sigpending()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def reset_for_exec() -> None:
    """Restore the default of signals that the interpreter ignores, before executing a program."""
    for name in _RESET_BY_EXEC_CALLERS:
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_DFL)


def _wake(number: int, frame: FrameType | None) -> None:
    """Do nothing: the interpreter writes to the pipe before this call."""
