"""Handles of the processes that a nursery started: workers and store hosts."""

import asyncio
import signal
from collections.abc import Callable

from .inside.messages import Message, Signal

Send = Callable[[Message], None]


class Worker:
    """A worker, running or exited.

    Attributes:
        pid: the process id, also that of its session and process group.
        warm: whether it was forked with its imports done.
        reason: why it is cold; empty if it is warm.
    """

    def __init__(
        self, pid: int, *, warm: bool, reason: str, exit: "asyncio.Future[int]", send: Send
    ) -> None:
        self.pid = pid
        self.warm = warm
        self.reason = reason
        self._exit = exit
        self._send = send

    def __repr__(self) -> str:
        return f"<Worker {self.pid} {'warm' if self.warm else 'cold'} {self.returncode}>"

    @property
    def returncode(self) -> int | None:
        """Negative for a signal, as in `subprocess`; `None` while it runs."""
        return self._exit.result() if self._exit.done() else None

    async def wait(self) -> int:
        """Wait for the worker's exit and return its return code."""
        return await asyncio.shield(self._exit)

    def signal(self, number: int) -> None:
        """Send a signal to the worker, unless it has exited.

        The signals of a terminal (SIGINT, SIGQUIT, SIGHUP) go to its whole process group. Processes
        that are left in the group after the worker's exit have a short grace period.
        """
        if not self._exit.done():
            self._send(Signal(self.pid, int(number)))


class StoreHost:
    """The process that hosts one round's store."""

    def __init__(
        self, pid: int, *, host: str, port: int, exit: "asyncio.Future[int]", send: Send
    ) -> None:
        self.pid = pid
        self.host = host
        self.port = port
        self._exit = exit
        self._send = send

    async def wait(self) -> int:
        """Wait for the host's exit, which never happens by itself."""
        return await asyncio.shield(self._exit)

    async def close(self) -> None:
        """Stop the store and free its port."""
        if not self._exit.done():
            self._send(Signal(self.pid, int(signal.SIGKILL)))
        await self.wait()
