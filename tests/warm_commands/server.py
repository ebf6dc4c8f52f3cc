"""Forks a process with all of Resile's commands imported, for each client's request.

One thread and one selector. A command's process leaves the loop and continues like `python -m
resile`, to the interpreter's ordinary end. If a client is killed, so is its command.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resile.cli.main import COMMANDS

TOO_LATE = (BrokenPipeError, ConnectionResetError)
"""Errors when a client has ended."""

IMPORTED_BY_COMMANDS = (
    "resile.kube.client",
    "resile.client.cluster.cluster",
    "resile.client.cluster.job",
)
"""Imported by commands only when they need a cluster."""


@dataclass(frozen=True)
class Running:
    """A command's process, and the client that waits for its end."""

    pid: int
    process: int
    client: socket.socket


class Server:
    """Takes requests until its standard input ends."""

    def __init__(self, address: Path) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        new = address.with_name("new")
        self._listener.bind(str(new))
        self._listener.listen(64)
        new.rename(address)
        self._running: dict[int, Running] = {}
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(0, selectors.EVENT_READ)

    def serve(self) -> dict[str, Any] | None:
        """Return a request in the process that was forked for it, and None at the end."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj == 0:
                    self._end()
                    return None
                if key.fileobj is self._listener:
                    if request := self._take():
                        return request
                elif isinstance(key.data, Running):
                    self._look(key.data, ended=key.fileobj == key.data.process)

    def _take(self) -> dict[str, Any] | None:
        client, _ = self._listener.accept()
        try:
            header, streams, _, _ = socket.recv_fds(client, 4, 3)
            text = client.makefile("rb").read(int.from_bytes(header, "big"))
            request: dict[str, Any] = json.loads(text)
        except (OSError, ValueError):
            client.close()
            return None
        pid = os.fork()
        if pid == 0:
            self._leave(client, streams)
            return request
        for stream in streams:
            os.close(stream)
        running = Running(pid, os.pidfd_open(pid), client)
        self._running[pid] = running
        for watched in (running.process, client):
            self._selector.register(watched, selectors.EVENT_READ, running)
        with contextlib.suppress(*TOO_LATE):
            client.sendall(b"%d\n" % pid)
        return None

    def _leave(self, client: socket.socket, streams: list[int]) -> None:
        """Close everything of the server's except the client's streams."""
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        self._selector.close()
        for running in self._running.values():
            os.close(running.process)
            running.client.close()
        self._listener.close()
        client.close()

    def _look(self, running: Running, *, ended: bool) -> None:
        """Report the end of a command to its client, or end the command if the client has died."""
        if running.pid not in self._running:
            return
        if not ended:
            os.kill(running.pid, signal.SIGKILL)
        _, status = os.waitpid(running.pid, 0)
        del self._running[running.pid]
        for watched in (running.process, running.client):
            self._selector.unregister(watched)
        os.close(running.process)
        with contextlib.suppress(*TOO_LATE):
            running.client.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
        running.client.close()

    def _end(self) -> None:
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)


def become(request: dict[str, Any]) -> None:
    """Continue as the command that a client requested."""
    os.environ.clear()
    os.environ.update(request["env"])
    time.tzset()
    os.chdir(request["cwd"])
    sys.argv[1:] = request["words"]
    sys.path[0] = request["cwd"]
    runpy.run_module("resile", run_name="__main__", alter_sys=True)


def main() -> None:
    for module, _ in COMMANDS.values():
        importlib.import_module(module)
    for module in IMPORTED_BY_COMMANDS:
        importlib.import_module(module)
    gc.freeze()
    address = Path(sys.argv[1])
    request = Server(address).serve()
    if request is not None:
        become(request)
    else:
        shutil.rmtree(address.parent, ignore_errors=True)


if __name__ == "__main__":
    main()
