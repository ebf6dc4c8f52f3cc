"""Handles to what a nursery started: workers and store hosts."""

import asyncio
import signal
from collections.abc import Callable

from .inside.messages import Message, Signal

Send = Callable[[Message], None]


class Worker:
    """A running worker, or one that has ended.

    Attributes:
        pid: the process, which also leads a session and a process group of that number.
        warm: whether it was forked with its imports done.
        reason: why it is cold, if it is.
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
        """Return the return code once the worker has ended."""
        return await asyncio.shield(self._exit)

    def signal(self, number: int) -> None:
        """Send a signal to the worker; nothing happens once it has ended.

        What a terminal sends (SIGINT, SIGQUIT, SIGHUP) goes to its whole process group. Processes
        that are left in the group at the worker's end have a short grace.
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
        """Return when the host has ended, which by itself it never does."""
        return await asyncio.shield(self._exit)

    async def close(self) -> None:
        """End the store and free its port."""
        if not self._exit.done():
            self._send(Signal(self.pid, int(signal.SIGKILL)))
        await self.wait()
