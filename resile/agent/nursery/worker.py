"""The command of a worker, and the handles of the processes that a nursery started."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from .inside.protocol import Message, SignalWorker


class CommandKind(Enum):
    """The kind of a command's target."""

    SCRIPT = auto()
    MODULE = auto()
    EXECUTABLE = auto()


_NO_HOOK = {
    "E": "it ignores the environment",
    "I": "it ignores the environment",
    "S": "it does not import site",
    "i": "it becomes interactive",
}
"""Interpreter flags under which the nursery's hook is not found, or must not be."""

_FLAGS_WITH_VALUE = "WX"


@dataclass(frozen=True, kw_only=True)
class WorkerCommand:
    """A Python script, a Python module (`-m`) or any other program, with its arguments.

    Attributes:
        flags: the interpreter's own flags. Unbuffered by default, as under torchrun.
        python: the interpreter; workers can be warm only if it is the agent's own.
    """

    kind: CommandKind
    target: str
    args: tuple[str, ...] = ()
    flags: tuple[str, ...] = ("-u",)
    python: str = field(default_factory=lambda: sys.executable)

    def argv(self) -> list[str]:
        """Return the command as a list of arguments."""
        if self.kind is CommandKind.EXECUTABLE:
            return [self.target, *self.args]
        module = ["-m"] if self.kind is CommandKind.MODULE else []
        return [self.python, *self.flags, *module, self.target, *self.args]

    def why_cold(self) -> str:
        """Return why a worker with this command can never be warm; empty if it can."""
        if self.kind is CommandKind.EXECUTABLE:
            return f"{self.target} is a program of its own, not a Python script"
        if self.python != sys.executable:
            return f"the workers' interpreter is {self.python}, the agent's {sys.executable}"
        for letter in _flag_letters(self.flags):
            if letter in _NO_HOOK:
                return f"the interpreter runs with -{letter}: {_NO_HOOK[letter]}"
        return ""

    def first_path(self, *, cwd: str, env: Mapping[str, str]) -> str | None:
        """Return what the interpreter will put first on `sys.path`, `None` for nothing."""
        safe = env.get("PYTHONSAFEPATH") or "P" in _flag_letters(self.flags)
        if safe and sys.version_info >= (3, 11):
            return None
        if self.kind is CommandKind.MODULE:
            return cwd
        script = os.path.realpath(os.path.join(cwd, self.target))
        return script if os.path.isdir(script) else os.path.dirname(script)


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """A worker to start.

    Attributes:
        env: the complete environment of the process.
        stdin, stdout, stderr: descriptors; the worker gets copies, and the caller closes its own.
    """

    command: WorkerCommand
    env: Mapping[str, str]
    cwd: str
    stdin: int
    stdout: int
    stderr: int


def _flag_letters(flags: tuple[str, ...]) -> list[str]:
    """Return the single-letter flags, out of clusters such as `-uB` and without their values."""
    letters: list[str] = []
    is_value = False
    for flag in flags:
        if is_value or not flag.startswith("-") or flag.startswith("--"):
            is_value = False
            continue
        for position, letter in enumerate(flag[1:], start=1):
            letters.append(letter)
            if letter in _FLAGS_WITH_VALUE:
                is_value = position == len(flag) - 1
                break
    return letters


Send = Callable[[Message], None]


class Worker:
    """A worker, running or exited.

    Attributes:
        pid: the process id, also that of its session and process group.
        warm: whether it was forked with its imports done.
        reason: why it is cold; empty if it is warm.
    """

    def __init__(
        self, pid: int, *, warm: bool, reason: str, exit: asyncio.Future[int], send: Send
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
            self._send(SignalWorker(self.pid, int(number)))


class StoreHost:
    """The process that hosts one round's store."""

    def __init__(
        self, pid: int, *, host: str, port: int, exit: asyncio.Future[int], send: Send
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
            self._send(SignalWorker(self.pid, int(signal.SIGKILL)))
        await self.wait()
