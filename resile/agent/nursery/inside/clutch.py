"""Eggs: children forked ahead of time, which wait to be told what to become.

Forking a process that has torch loaded takes some ten milliseconds, one after the other for each
worker of a node. So the nursery forks while nothing else goes on, as many as were last asked for
at once, and hands each a task when the time comes. An egg costs its page tables and what it does
not share any more, a few megabytes. Every child begins as an egg; without one in stock it is laid
and hatched in one go.
"""

import os
import socket
from collections import deque
from typing import NamedTuple

from . import signals
from .frames import pack
from .line import Line
from .messages import Message


class Newborn(BaseException):
    """Raised in a forked child, to leave the nursery's loop behind; `line` brings its task."""

    def __init__(self, line: Line, parent: int) -> None:
        super().__init__()
        self.line = line
        self.parent = parent


class _Egg(NamedTuple):
    pid: int
    socket: socket.socket


class Clutch:
    """The eggs in stock, and how many there should be."""

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self._eggs: deque[_Egg] = deque()
        self._unhatched: set[int] = set()
        self._asked_for = 0
        self._wanted = 0

    def hatch(self, task: Message, descriptors: list[int]) -> int:
        """Give a child its task and return its process id. Raises `OSError` if there can be none.

        Raises `Newborn` in the child.
        """
        self._asked_for += 1
        while self._eggs:
            egg = self._eggs.popleft()
            if self._tell(egg, task, descriptors):
                return egg.pid
        egg = self._lay()
        if not self._tell(egg, task, descriptors):
            raise ChildProcessError("the child died at once")
        return egg.pid

    def restock(self) -> int | None:
        """Lay one egg, if there should be more, and return its process id.

        Called when the nursery is idle. What was asked for since it last was is what will be asked
        for again.
        """
        if self._asked_for:
            self._wanted, self._asked_for = self._asked_for, 0
        if not self._keep or len(self._eggs) >= self._wanted:
            return None
        try:
            egg = self._lay()
        except OSError:
            # Not the time to be greedy. What is really needed will be tried in its turn.
            self._wanted = len(self._eggs)
            return None
        self._eggs.append(egg)
        return egg.pid

    def wants_more(self) -> bool:
        return self._keep and (self._asked_for > 0 or len(self._eggs) < self._wanted)

    def has_lost(self, pid: int) -> bool:
        """Take note that a child died; return whether it did so as an egg."""
        if pid not in self._unhatched:
            return False
        self._unhatched.discard(pid)
        for egg in [egg for egg in self._eggs if egg.pid == pid]:
            egg.socket.close()
            self._eggs.remove(egg)
        return True

    def abandon(self) -> None:
        """Let go of all eggs: in a child, whose siblings they are."""
        for egg in self._eggs:
            egg.socket.close()
        self._eggs.clear()

    def _lay(self) -> _Egg:
        ours, theirs = socket.socketpair()
        parent = os.getpid()
        try:
            pid = signals.fork()
        except OSError:
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            ours.close()
            raise Newborn(Line(theirs.detach()), parent)
        theirs.close()
        self._unhatched.add(pid)
        return _Egg(pid, ours)

    def _tell(self, egg: _Egg, task: Message, descriptors: list[int]) -> bool:
        """Send an egg its task; return whether it was there to take it."""
        frame = pack(task)
        with egg.socket:
            try:
                sent = socket.send_fds(egg.socket, [frame], descriptors)
                # Nothing may be sent after the end: an egg that has all of its task hangs up.
                if sent < len(frame):
                    egg.socket.sendall(frame[sent:])
            except OSError:
                return False
        self._unhatched.discard(egg.pid)
        return True
