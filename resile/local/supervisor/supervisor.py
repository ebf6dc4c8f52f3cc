"""The node supervisor: one small process per node that ends the node as a whole.

It forks, sets up the child and executes the node's program in it: the child leads a session of
its own, is killed by the kernel if the supervisor dies, and is in its cgroups before the first
instruction of the program. Output goes to the node's log. If anything fails before the program
runs, the reason is sent over a pipe that the exec closes.

The supervisor adopts orphans: a descendant whose parent ended becomes its child, whatever its
session or process group. So "no child left" means that all processes of the node have ended, and
only then is its end reported.

The node is stopped when the platform says so, and also when the platform is gone (killed with
SIGKILL, say): the connection between them is then closed. When the node's own process has ended,
the remaining processes get SIGTERM and a short grace period, because some helpers clean up after
a dead parent (multiprocessing's resource tracker removes shared memory, an agent's nursery ends
its workers); then SIGKILL, repeatedly until none is left. If the supervisor itself is killed,
the kernel kills the node's process with it.

Only the standard library is used, and little of it, because every start of a node pays for it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from typing import NoReturn

from resile.local.supervisor.messages import (
    Ended,
    Kill,
    LineReader,
    Message,
    SpawnNode,
    Started,
    StartRefused,
    Stop,
    pack,
)
from resile.system.prctl import adopt_orphans, die_with
from resile.system.process_tree import descendants, list_processes

__all__ = [
    "REMAINS_GRACE",
    "SpawnError",
    "main",
    "spawn",
]


_NOT_STARTED = 127


class SpawnError(Exception):
    """The program could not be started; the message says why."""


def spawn(order: SpawnNode) -> int:
    """Start the node's program and return its pid. Must be called without other threads."""
    supervisor = os.getpid()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(order, supervisor=supervisor, writer=writer)
    os.close(writer)
    with open(reader, "rb") as pipe:
        why = pipe.read().decode(errors="replace")
    if why:
        os.waitpid(pid, 0)
        raise SpawnError(why)
    return pid


def _become(order: SpawnNode, *, supervisor: int, writer: int) -> NoReturn:
    try:
        os.setsid()
        die_with(supervisor)
        _join(order.cgroups)
        _enter(order.cwd)
        _reset_signals()
        _close_stdin()
        _run(order)
    except BaseException as error:
        os.write(writer, str(error).encode(errors="replace"))
    finally:
        os._exit(_NOT_STARTED)


def _join(cgroups: list[str]) -> None:
    for folder in cgroups:
        try:
            with open(f"{folder}/cgroup.procs", "w") as file:
                file.write("0")
        except OSError as error:
            raise SpawnError(f"cannot enter the cgroup {folder}: {error.strerror}") from None


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise SpawnError(f"working directory {folder}: {error.strerror}") from None


def _reset_signals() -> None:
    """Restore default handlers: ignored signals stay ignored over an exec, handled ones do not."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _close_stdin() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)


def _run(order: SpawnNode) -> None:
    program = order.argv[0]
    try:
        os.execvpe(program, order.argv, order.env)
    except FileNotFoundError:
        where = "there is no such file" if "/" in program else "it is not on the PATH"
        raise SpawnError(f"cannot run {program}: {where}") from None
    except OSError as error:
        raise SpawnError(f"cannot run {program}: {error.strerror}") from None


REMAINS_GRACE = 2.0
"""Grace period in seconds for the rest of a tree once the node's process has ended. A nursery gives
the orphans of its workers 1 s; this has to be longer."""

_KILL_AGAIN = 0.05
"""Seconds until the rest is killed again: a process may have been forked in between."""

_CHUNK = 65536


class NodeSupervisor:
    """Supervises one node, from its start to the end of its last process."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._reader = LineReader()
        self._order: SpawnNode | None = None
        self._node = 0
        self._code: int | None = None
        self._stop_ordered = False
        self._deadline: float | None = None
        self._remains_grace = REMAINS_GRACE
        self._platform_is_there = True
        self._waker, self._wake = os.pipe()

    def run(self) -> None:
        """Supervise the node; return when all its processes have ended."""
        self._prepare()
        while self._order is None and self._platform_is_there:
            self._listen()
        while self._node and not self._all_ended():
            self._force_if_due()
            self._wait()
        if self._code is not None:
            self._say(Ended(self._code, self._stop_ordered))
        if not self._platform_is_there and self._order is not None:
            _remove(self._order.cgroups)

    def _prepare(self) -> None:
        adopt_orphans()
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_IGN)
        os.set_blocking(self._waker, False)
        os.set_blocking(self._wake, False)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: self._stop(self._own_grace()))

    def _own_grace(self) -> float:
        return self._order.grace if self._order is not None else 0.0

    def _wait(self) -> None:
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        if self._platform_is_there:
            poll.register(self._line, select.POLLIN)
        pause = None
        if self._deadline is not None:
            pause = max(0.0, self._deadline - time.monotonic()) * 1000
        ready = dict(poll.poll(pause))
        if self._waker in ready:
            with suppress(BlockingIOError):
                os.read(self._waker, _CHUNK)
        if self._line.fileno() in ready:
            self._listen()

    def _listen(self) -> None:
        try:
            data = self._line.recv(_CHUNK)
        except ConnectionResetError:
            data = b""
        if not data:
            self._platform_is_there = False
            self._stop(0.0)
        for message in self._reader.feed(data):
            self._obey(message)

    def _obey(self, message: Message) -> None:
        match message:
            case SpawnNode():
                self._order = message
                self._spawn(message)
            case Stop(grace):
                self._stop(grace)
            case Kill():
                self._remains_grace = 0.0
                self._kill_all()

    def _spawn(self, order: SpawnNode) -> None:
        try:
            self._node = spawn(order)
        except SpawnError as error:
            self._say(StartRefused(str(error)))
        else:
            self._say(Started(self._node))

    def _stop(self, grace: float) -> None:
        """Send SIGTERM now, and SIGKILL after ``grace``, or sooner if an earlier stop set that."""
        if self._code is not None or not self._node:
            return
        self._stop_ordered = True
        if grace > 0:
            _signal(self._node, signal.SIGTERM)
        self._force_at(time.monotonic() + grace)

    def _force_at(self, moment: float) -> None:
        self._deadline = moment if self._deadline is None else min(self._deadline, moment)

    def _force_if_due(self) -> None:
        if self._deadline is None or time.monotonic() < self._deadline:
            return
        if self._code is None:
            _signal(self._node, signal.SIGKILL)
            self._deadline = None
        else:
            self._kill_all()

    def _kill_all(self) -> None:
        self._signal_all(signal.SIGKILL)
        self._deadline = time.monotonic() + _KILL_AGAIN

    def _signal_all(self, number: signal.Signals) -> None:
        for seen in descendants(os.getpid(), list_processes()):
            _signal(seen.pid, number)

    def _all_ended(self) -> bool:
        """Reap children; return whether none is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self._node:
                self._code = os.waitstatus_to_exitcode(status)
                self._end_remains()

    def _end_remains(self) -> None:
        self._signal_all(signal.SIGTERM)
        self._deadline = time.monotonic() + self._remains_grace

    def _say(self, message: Message) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):
            self._line.sendall(pack(message))


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _remove(cgroups: list[str]) -> None:
    """Clean up for a dead platform: remove the node's cgroups, and the job's if it is empty."""
    from pathlib import Path  # not at the top: needed only after a crash, and costs start-up time

    for folder in map(Path, cgroups):
        with suppress(OSError):
            folder.rmdir()
            folder.parent.rmdir()


def main(descriptor: int) -> None:
    """Run a supervisor whose connection to the platform is this file descriptor."""
    line = socket.socket(fileno=descriptor)
    line.set_inheritable(False)
    NodeSupervisor(line).run()
    os._exit(0)
