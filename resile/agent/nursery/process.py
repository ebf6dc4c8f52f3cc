"""A nursery process: its start, its output, requests to it, answers and exits from it.

A warm nursery is the workers' own command, `python script.py ...`, with a folder of ours at the
front of PYTHONPATH in which the interpreter finds our `sitecustomize` (see there). If it were not
found, the user's script would run; so a harmless command is tried first. The output of the process
is kept while it imports, and logged afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from resile.system.processes import describe_exit

from .channel import Channel
from .errors import NurseryDied, SpawnFailed, StoreUnavailable
from .inside.children import signal_group
from .inside.protocol import (
    Echo,
    Exited,
    Importing,
    Message,
    OpenStore,
    PreloadRequest,
    PreloadResult,
    RequestFailed,
    Spawn,
    Spawned,
    StoreOpened,
)
from .worker import StoreHost, Worker, WorkerCommand

_log = logging.getLogger(__name__)

_READ_BYTES = 1 << 16


class ProcessOutput:
    """Reads one of the process's streams at once, so that the process never blocks on it."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipe = pipe
        self._kept = bytearray()
        self._keeping = True
        os.set_blocking(pipe.fileno(), False)
        self._loop.add_reader(pipe, self._read)

    def release(self) -> str:
        """Return the output so far and keep no more."""
        self._read_all()
        self._keeping = False
        text = self._kept.decode(errors="replace")
        self._kept.clear()
        return text

    def last_line(self) -> str:
        """Return the last line of the kept output."""
        self._read_all()
        lines = self._kept.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        if not self._pipe.closed:
            self._loop.remove_reader(self._pipe)
            self._pipe.close()

    def _read_all(self) -> None:
        while not self._pipe.closed and self._read():
            pass

    def _read(self) -> bool:
        """Read what is available; return whether there was anything."""
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._pipe.fileno(), _READ_BYTES)
            if not data:
                self.close()
        if self._keeping:
            self._kept += data
        elif data:
            _log.debug("nursery: %s", data.decode(errors="replace").rstrip())
        return bool(data)


_HOOK = Path(__file__).parent / "hook"
_TASK = "RESILE_NURSERY"
_TRIAL_PASSED = 17
_TRIAL_LIMIT = 60.0

COLD_ARGV = [sys.executable, "-I", "-S", str(_HOOK / "sitecustomize.py")]
"""A nursery that imports nothing, for cold workers only: it starts in a hundredth of a second."""


def hooked(env: Mapping[str, str], task: str) -> dict[str, str]:
    """Return the environment in which a starting interpreter finds the hook."""
    path = [str(_HOOK), *([env["PYTHONPATH"]] if env.get("PYTHONPATH") else [])]
    return {**env, "PYTHONPATH": os.pathsep.join(path), _TASK: task}


def hook_is_found(command: WorkerCommand, *, env: Mapping[str, str], cwd: str) -> bool:
    """Whether the interpreter, started with these flags and environment, runs the hook."""
    try:
        trial = subprocess.run(
            [command.python, *command.flags, "-c", ""],
            env=hooked(env, "trial"),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_TRIAL_LIMIT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return trial.returncode == _TRIAL_PASSED


def launch(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str, keep: Sequence[int]
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a nursery process in a session of its own; return it and our end of the socket.

    `keep` are further descriptors that it inherits under the same numbers.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs:
        try:
            process = subprocess.Popen(
                argv,
                env=hooked(env, str(theirs.fileno())),
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno(), *keep],
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
    return process, ours


Exit = asyncio.Future[int]

_LOOK_EVERY = 0.02
"""Poll interval, in seconds, for processes that are exiting."""


class NurseryProcess:
    """A nursery process and its children.

    If it dies, the kernel kills its workers, and their handles report that.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], line: socket.socket, prepare: PreloadRequest
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
        self._stdout, self._stderr = ProcessOutput(process.stdout), ProcessOutput(process.stderr)
        self._ready: asyncio.Future[PreloadResult] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._channel = Channel(line, on_message=self._on_message, on_end=self._on_end)
        self._channel.send(prepare)

    @property
    def has_ended(self) -> bool:
        """Whether the process can no longer take requests."""
        return self._channel.has_ended

    def on_end(self, callback: Callable[[NurseryProcess], None]) -> None:
        """Call back when the process has ended."""
        self._ended.add_done_callback(lambda _: callback(self))

    async def ready(self, limit: float) -> PreloadResult:
        """Wait until it has imported its modules; an exit or a timeout makes it unfit to fork."""
        try:
            return await asyncio.wait_for(asyncio.shield(self._ready), limit)
        except asyncio.TimeoutError:
            return self._unready(f"it took longer than {limit:g} s")

    async def spawn(self, spawn: Spawn, streams: Sequence[int]) -> Worker:
        """Start one worker."""
        number = next(self._numbers)
        answer, exit = await self._ask(number, spawn._replace(request=number), streams)
        if not isinstance(answer, Spawned):
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
            case PreloadResult():
                self._on_ready(message)
            case Spawned(request, pid) | StoreOpened(request, pid):
                self._exits[pid] = self._loop.create_future()
                self._answer(request, message, self._exits[pid])
            case RequestFailed(request):
                self._answer(request, message, self._loop.create_future())
            case Exited(pid, returncode):
                self._exits.pop(pid).set_result(returncode)
                if self._retiring:
                    self.retire()

    def _on_ready(self, ready: PreloadResult) -> None:
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

    def _unready(self, reason: str) -> PreloadResult:
        culprits = {self._importing: reason} if self._importing else {}
        return PreloadResult([], [], False, reason, culprits, {})


def _reason(answer: Message) -> str:
    return answer.reason if isinstance(answer, RequestFailed) else f"unexpected answer {answer}"
