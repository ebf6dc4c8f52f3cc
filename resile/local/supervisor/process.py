"""The platform's handle to one node's supervisor: start it, send it messages, wait for its end."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import resile
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
from resile.system.process_tree import list_processes

__all__ = ["End", "NodeProcess", "Program"]

_SUPERVISOR = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from resile.local.supervisor.supervisor import main; main(int(sys.argv[2]))"
)
_PACKAGES = str(Path(resile.__file__).parents[1])


@dataclass(frozen=True, kw_only=True)
class Program:
    """The program of a node, with its environment and limits."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    log: Path
    grace: float
    cgroups: Sequence[Path] = field(default=())


@dataclass(frozen=True)
class End:
    """The end of a node's process tree, as its supervisor reported it."""

    code: int | None = None
    """Negative for a signal; None if the program never ran, or its end was not seen."""

    stop_ordered: bool = True
    """True if a stop was ordered before it ended; it may have been about to end by itself."""

    refused: str = ""
    """The reason why the program could not be started."""


class NodeProcess(asyncio.Protocol):
    """A node's process tree, from the start of its supervisor to the end of its last process.

    ``on_started`` is called when the node's program runs, ``on_end`` once, when all have ended.
    Must be created in the thread of the event loop.
    """

    def __init__(
        self,
        program: Program,
        *,
        on_started: Callable[[], None],
        on_end: Callable[[End], None],
    ) -> None:
        self.pid: int | None = None
        """The pid of the node's own process, once it runs."""

        self._on_started, self._on_end = on_started, on_end
        self._end = End()
        self._reader = LineReader()
        self._transport: asyncio.WriteTransport | None = None
        self._unsent: list[bytes] = []
        self._process, line = _start_supervisor(program)
        self._send(
            SpawnNode(
                argv=list(program.argv),
                env=dict(program.env),
                cwd=program.cwd,
                grace=program.grace,
                cgroups=[str(folder) for folder in program.cgroups],
            )
        )
        loop = asyncio.get_running_loop()
        self._connecting = loop.create_task(loop.create_unix_connection(lambda: self, sock=line))

    @property
    def supervisor_pid(self) -> int:
        """The root of the node's tree: all its descendants belong to the node."""
        return self._process.pid

    def stop(self, grace: float) -> None:
        """Send SIGTERM, and SIGKILL after the grace period."""
        self._send(Stop(grace))

    def kill(self) -> None:
        """Send SIGKILL to the whole tree, now."""
        self._send(Kill())

    def abandon(self) -> None:
        """Kill the supervisor; the kernel kills the node with it."""
        with suppress(ProcessLookupError):
            self._process.kill()

    def _send(self, message: Message) -> None:
        if self._transport is None:
            self._unsent.append(pack(message))
        elif not self._transport.is_closing():
            self._transport.write(pack(message))

    # --- asyncio.Protocol -------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the messages that were queued before the connection existed."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        transport.write(b"".join(self._unsent))
        self._unsent.clear()

    def data_received(self, data: bytes) -> None:
        """Handle messages from the supervisor."""
        for message in self._reader.feed(data):
            match message:
                case Started(pid):
                    self.pid = pid
                    self._on_started()
                case StartRefused(why):
                    self._end = End(refused=why)
                case Ended(code, stop_ordered):
                    self._end = End(code=code, stop_ordered=stop_ordered)

    def connection_lost(self, _: Exception | None) -> None:
        """Reap the supervisor: it closes the connection last, so this does not block."""
        self._process.wait()
        if self._end == End():
            self._end_without_supervisor()
        self._on_end(self._end)

    def _end_without_supervisor(self) -> None:
        """Kill the rest of the node's session: the supervisor was killed, and the node with it."""
        if self.pid is None:
            self._end = End(refused="its supervisor was killed before the node had started")
            return
        for seen in list_processes().values():
            if seen.session == self.pid:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(seen.pid, signal.SIGKILL)
        self._end = End(code=-signal.SIGKILL)


def _start_supervisor(program: Program) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a supervisor. Raises OSError if the log or the process cannot be created."""
    program.log.parent.mkdir(parents=True, exist_ok=True)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs, open(program.log, "ab") as log:
        descriptor = str(theirs.fileno())
        try:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    "-c",
                    _SUPERVISOR,
                    _PACKAGES,
                    descriptor,
                    program.name,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        except OSError:
            ours.close()
            raise
    return process, ours
