"""The agent's handle of one nursery process: sends requests, receives answers and exits."""

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence

from resile.system.exit_status import describe_exit

from .channel import Channel
from .errors import NurseryDied, SpawnFailed, StoreUnavailable
from .inside.children import signal_group
from .inside.messages import (
    Born,
    Echo,
    Exited,
    Importing,
    Message,
    OpenStore,
    Prepare,
    Ready,
    Refused,
    Spawn,
    StoreOpened,
)
from .output import Output
from .worker import StoreHost, Worker

Exit = asyncio.Future[int]

_LOOK_EVERY = 0.02
"""Poll interval, in seconds, for processes that are exiting."""


class NurseryProcess:
    """One nursery process and its children.

    If it dies, the kernel kills its workers, and their handles report that.
    """

    def __init__(
        self, process: "subprocess.Popen[bytes]", line: socket.socket, prepare: Prepare
    ) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.pid = process.pid
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._importing = ""
        self._exits: dict[int, Exit] = {}
        self._requests: dict[int, asyncio.Future[tuple[Message, Exit]]] = {}
        self._numbers = itertools.count(1)
        self._retiring = False
        self._grace = prepare.grace
        self._groups: list[int] = []
        self._ending: asyncio.Task[None] | None = None
        self._stdout, self._stderr = Output(process.stdout), Output(process.stderr)
        self._ready: asyncio.Future[Ready] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._channel = Channel(line, on_message=self._on_message, on_end=self._on_end)
        self._channel.send(prepare)

    @property
    def has_ended(self) -> bool:
        """Whether the process can no longer take requests."""
        return self._channel.has_ended

    def on_end(self, callback: Callable[["NurseryProcess"], None]) -> None:
        """Call back when the process has ended."""
        self._ended.add_done_callback(lambda _: callback(self))

    async def ready(self, limit: float) -> Ready:
        """Wait until it has imported its modules; an exit or a timeout makes it unfit to fork."""
        try:
            return await asyncio.wait_for(asyncio.shield(self._ready), limit)
        except asyncio.TimeoutError:
            return self._unready(f"it took longer than {limit:g} s")

    async def spawn(self, spawn: Spawn, streams: Sequence[int]) -> Worker:
        """Start one worker."""
        number = next(self._numbers)
        answer, exit = await self._ask(number, spawn._replace(request=number), streams)
        if not isinstance(answer, Born):
            raise SpawnFailed(_reason(answer))
        return Worker(
            answer.pid, warm=answer.warm, reason=answer.reason, exit=exit, send=self._channel.send
        )

    async def open_store(self, host: str, port: int = 0) -> StoreHost:
        """Start the host of a store that listens on `host`, on a free port for 0."""
        number = next(self._numbers)
        answer, exit = await self._ask(number, OpenStore(number, host, port))
        if not isinstance(answer, StoreOpened):
            raise StoreUnavailable(_reason(answer))
        return StoreHost(
            answer.pid, host=host, port=answer.port, exit=exit, send=self._channel.send
        )

    def retire(self) -> None:
        """Stop the process as soon as it has no children left."""
        self._retiring = True
        if not self._exits and not self._requests:
            self._channel.finish()

    async def close(self, limit: float) -> None:
        """Stop the process and everything it started; kill it after `limit` seconds."""
        if self._ready.done():
            self._channel.finish()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(self._ended), limit)
        # One that is still importing reads no messages, and has no children yet.
        self._channel.close()
        await asyncio.shield(self._ended)

    async def _ask(
        self, number: int, message: Message, descriptors: Sequence[int] = ()
    ) -> tuple[Message, Exit]:
        """Send a request; return its answer and the future exit of the child that it started."""
        if self.has_ended:
            raise NurseryDied("the nursery is dead")
        answer: asyncio.Future[tuple[Message, Exit]] = self._loop.create_future()
        self._requests[number] = answer
        self._channel.send(message, descriptors)
        return await answer

    def _on_message(self, message: Message) -> None:
        match message:
            case Importing(name):
                self._importing = name
            case Ready():
                self._on_ready(message)
            case Born(request, pid) | StoreOpened(request, pid):
                self._exits[pid] = self._loop.create_future()
                self._answer(request, message, self._exits[pid])
            case Refused(request):
                self._answer(request, message, self._loop.create_future())
            case Exited(pid, returncode):
                self._exits.pop(pid).set_result(returncode)
                if self._retiring:
                    self.retire()

    def _on_ready(self, ready: Ready) -> None:
        stdout, stderr = self._stdout.release(), self._stderr.release()
        if stdout or stderr:
            self._channel.send(Echo(stdout, stderr))
        self._ready.set_result(ready)

    def _answer(self, request: int, message: Message, exit: Exit) -> None:
        answer = self._requests.pop(request)
        if not answer.done():
            answer.set_result((message, exit))

    def _on_end(self) -> None:
        """Settle all pending futures, and kill what the process may have left behind."""
        self._groups = [self.pid, *self._exits]
        for pid in self._groups:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for exit in self._exits.values():
            exit.set_result(-signal.SIGKILL)
        self._exits.clear()
        for answer in self._requests.values():
            if not answer.done():
                answer.set_exception(NurseryDied("the nursery died before it answered"))
        self._requests.clear()
        self._loop.run_in_executor(None, self._process.wait).add_done_callback(self._on_reaped)

    def _on_reaped(self, _: object) -> None:
        if not self._ready.done():
            how = describe_exit(self._process.returncode)
            last_words = self._stderr.last_line()
            self._ready.set_result(
                self._unready(f"it {how}" + (f": {last_words}" if last_words else ""))
            )
        self._stdout.close()
        self._stderr.close()
        self._ending = self._loop.create_task(self._end_groups())

    async def _end_groups(self) -> None:
        """Stop process groups that were left behind. multiprocessing's resource tracker, which
        frees shared memory of a library, needs a moment and must not be killed at once."""
        deadline = self._loop.time() + self._grace
        number = int(signal.SIGTERM)
        while self._groups and self._loop.time() < deadline:
            self._groups = [group for group in self._groups if signal_group(group, number)]
            number = 0
            await asyncio.sleep(_LOOK_EVERY if self._groups else 0)
        for group in self._groups:
            signal_group(group, signal.SIGKILL)
        self._ended.set_result(None)

    def _unready(self, reason: str) -> Ready:
        culprits = {self._importing: reason} if self._importing else {}
        return Ready([], [], False, reason, culprits, {})


def _reason(answer: Message) -> str:
    return answer.reason if isinstance(answer, Refused) else f"unexpected answer {answer}"
