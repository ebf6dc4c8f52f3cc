"""The pool of spare children: forked ahead of time, they wait for a task.

Forking a process that has torch loaded takes some ten milliseconds, one after the other for each
worker of a node. So the nursery forks while it is idle, as many children as were last requested at
once, and assigns a task to each on request. A spare costs its page tables and the pages that it no
longer shares, a few megabytes. Every child starts as a spare; if the pool is empty, one is forked
and gets its task at once.
"""

import os
import socket
from collections import deque
from typing import NamedTuple

from . import signals
from .protocol import BlockingChannel, Message, pack


class InChild(BaseException):
    """Raised in a forked child to leave the nursery's loop; its task arrives on `line`."""

    def __init__(self, line: BlockingChannel, parent: int) -> None:
        super().__init__()
        self.line = line
        self.parent = parent


class _Spare(NamedTuple):
    pid: int
    socket: socket.socket


class PreforkPool:
    """The spare children, and how many there should be."""

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self._spares: deque[_Spare] = deque()
        self._waiting: set[int] = set()
        self._asked_for = 0
        self._wanted = 0

    def assign(self, task: Message, descriptors: list[int]) -> int:
        """Assign a task to a child and return its process id. Raises `OSError` if a fork fails.

        Raises `InChild` in the child.
        """
        self._asked_for += 1
        while self._spares:
            spare = self._spares.popleft()
            if self._send_task(spare, task, descriptors):
                return spare.pid
        spare = self._fork_spare()
        if not self._send_task(spare, task, descriptors):
            raise ChildProcessError("the child died at once")
        return spare.pid

    def restock(self) -> int | None:
        """Fork one spare child, if there should be more, and return its process id.

        Called when the nursery is idle. As many children as were requested since the last idle
        time are expected to be requested again.
        """
        if self._asked_for:
            self._wanted, self._asked_for = self._asked_for, 0
        if not self._keep or len(self._spares) >= self._wanted:
            return None
        try:
            spare = self._fork_spare()
        except OSError:
            # The machine is short of resources. A real request will try again.
            self._wanted = len(self._spares)
            return None
        self._spares.append(spare)
        return spare.pid

    def wants_more(self) -> bool:
        return self._keep and (self._asked_for > 0 or len(self._spares) < self._wanted)

    def remove_dead(self, pid: int) -> bool:
        """Note that a child died; return whether it was still a spare."""
        if pid not in self._waiting:
            return False
        self._waiting.discard(pid)
        for spare in [spare for spare in self._spares if spare.pid == pid]:
            spare.socket.close()
            self._spares.remove(spare)
        return True

    def abandon(self) -> None:
        """In a forked child: close the sockets of all spares, which are its siblings."""
        for spare in self._spares:
            spare.socket.close()
        self._spares.clear()

    def _fork_spare(self) -> _Spare:
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
            raise InChild(BlockingChannel(theirs.detach()), parent)
        theirs.close()
        self._waiting.add(pid)
        return _Spare(pid, ours)

    def _send_task(self, spare: _Spare, task: Message, descriptors: list[int]) -> bool:
        """Send a spare its task; return whether it was alive to take it."""
        frame = pack(task)
        with spare.socket:
            try:
                sent = socket.send_fds(spare.socket, [frame], descriptors)
                # Nothing may be sent after the task: a spare that has all of it closes the socket.
                if sent < len(frame):
                    spare.socket.sendall(frame[sent:])
            except OSError:
                return False
        self._waiting.discard(spare.pid)
        return True
