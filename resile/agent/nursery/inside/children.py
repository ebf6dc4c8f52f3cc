"""The children of a nursery: running ones, dead ones, and the process groups they left behind.

A worker leads a session and process group of its own. When it dies, the processes that are left in
that group get SIGTERM and, after a grace period, SIGKILL. The grace is for helpers that clean up
after a dead parent and ignore SIGTERM for that purpose, above all multiprocessing's resource
tracker: killed at once, it would leave shared memory behind for good. For the same reason "kill the
group" means: kill the worker now, then proceed as above.

A group is signalled after its leader was reaped. Its id cannot be given to a new process while a
member is left, and ids are assigned in turn, so within the grace period it means no other group.
"""

import os
import signal
import time

_TO_THE_GROUP = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""Signals that a terminal sends to all processes of its foreground group: a shell script and the
program that it waits for both get them. Other signals are for the worker alone: if a DataLoader's
processes exited with it, an error would be raised in the middle of its handler."""

_LOOK_EVERY = 0.02
"""Poll interval, in seconds, for groups that are exiting: short, since `close` waits for them."""


class Children:
    """All processes that a nursery started and that have not exited."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._alive: set[int] = set()
        self._remains: dict[int, float] = {}

    def __bool__(self) -> bool:
        return bool(self._alive or self._remains)

    def add(self, pid: int) -> None:
        self._alive.add(pid)

    def signal(self, pid: int, number: int) -> None:
        """Signal a child, or its whole group; no effect if the child is already reaped."""
        if pid not in self._alive:
            return
        # A child that has not yet created its group has signals blocked: it gets this later.
        if number not in _TO_THE_GROUP or not signal_group(pid, number):
            os.kill(pid, number)

    def kill_all(self) -> None:
        for pid in self._alive:
            os.kill(pid, signal.SIGKILL)

    def reap(self) -> list[tuple[int, int]]:
        """Reap exited children: their ids and return codes, negative for a signal."""
        dead = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in self._alive:
                self._alive.discard(pid)
                self._end_group(pid)
                dead.append((pid, os.waitstatus_to_exitcode(status)))
        return dead

    def kill_overdue(self) -> float | None:
        """Kill groups whose grace is over. Return the delay to the next call, `None` for none."""
        now = time.monotonic()
        for group, deadline in list(self._remains.items()):
            overdue = now >= deadline
            if not signal_group(group, signal.SIGKILL if overdue else 0) or overdue:
                del self._remains[group]
        return _LOOK_EVERY if self._remains else None

    def _end_group(self, group: int) -> None:
        if signal_group(group, signal.SIGTERM):
            self._remains[group] = time.monotonic() + self._grace


def signal_group(group: int, number: int) -> bool:
    """Signal a process group and return whether it still had members."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # The member runs as another user (a setuid program): it exists but cannot be signalled.
        return True
    return True
