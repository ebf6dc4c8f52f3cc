"""The nursery's loop: starts children on request, reaps them, and guards that none is left behind.

There is one way out of `serve` in the nursery itself, the end of the process. In a forked warm
worker it returns, and the interpreter goes on to run the script.
"""

# ruff: noqa: PTH  (pathlib would be one more import in every worker)

import os
import select
import sys
from typing import NoReturn

from . import linux, signals, store
from .birth import Birth, become, repeat, settle
from .children import Children
from .importing import Warmth, warm_up
from .line import Line, LineEnded
from .messages import (
    Born,
    Echo,
    Exited,
    Importing,
    OpenStore,
    Prepare,
    Ready,
    Refused,
    Signal,
    Spawn,
    StoreOpened,
)
from .recorder import Recorder
from .signals import Waker

_TITLE = "resile: nursery"
_NAME = b"resile-nursery"


class Server:
    """One nursery process."""

    def __init__(self, line: Line, prepare: Prepare, baseline: set[str]) -> None:
        self._line = line
        self._prepare = prepare
        self._echo = Echo("", "")
        self._children = Children(prepare.grace)
        self._command_line = linux.CommandLine()
        self._name = linux.process_name()
        self._warmth = self._warm_up(baseline)
        self._waker = Waker()
        self._show()

    def run(self) -> None:
        """Serve until the agent is gone, then end the process. Returns in a warm worker only."""
        try:
            while not self._serve_once():
                pass
        except LineEnded:
            self._end()

    def _warm_up(self, baseline: set[str]) -> Warmth | None:
        if self._prepare.preload is None:
            self._line.send(Ready([], [], False, "", ""))
            return None
        agent = os.getppid()
        # An import may take for ever; until there are workers to look after, the kernel watches.
        linux.die_with(agent)
        warmth, ready = warm_up(
            self._prepare,
            baseline=baseline,
            announce=lambda name: self._line.send(Importing(name)),
        )
        linux.outlive_parent()
        self._line.send(ready)
        return warmth

    def _show(self) -> None:
        self._command_line.show(_TITLE)
        linux.name_process(_NAME)

    def _serve_once(self) -> bool:
        """Wait for something to do and do it. Return whether this is now a warm worker."""
        if self._line.has_received() or self._wait():
            return self._handle(*self._line.receive())
        return False

    def _wait(self) -> bool:
        """Look after children until the agent says something or falls silent for ever."""
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        poll.register(self._waker, select.POLLIN)
        pause = self._children.tend()
        ready = dict(poll.poll(None if pause is None else pause * 1000))
        if self._waker.fileno() in ready:
            self._reap()
        return self._line.fileno() in ready

    def _reap(self) -> None:
        self._waker.drain()
        for pid, returncode in self._children.reap():
            self._line.send(Exited(pid, returncode))

    def _handle(self, message: object, descriptors: list[int]) -> bool:
        if isinstance(message, Spawn):
            return self._spawn(message, descriptors)
        if isinstance(message, OpenStore):
            self._open_store(message)
        elif isinstance(message, Signal):
            self._children.signal(message.pid, message.number)
        elif isinstance(message, Echo):
            self._echo = message
        return False

    def _spawn(self, spawn: Spawn, streams: list[int]) -> bool:
        reason = "nothing is preloaded" if self._warmth is None else self._warmth.reason_against()
        warm = spawn.warm and not reason
        birth = Birth(os.getpid(), spawn.environ, spawn.cwd, streams)
        try:
            pid = signals.fork()
        except OSError as error:
            self._line.send(Refused(spawn.request, f"cannot fork: {error.strerror}"))
            return False
        if pid == 0:
            self._leave(birth)
            if not warm:
                become(spawn.argv)
            self._become_worker(birth.parent)
            return True
        self._children.add(pid)
        for descriptor in streams:
            os.close(descriptor)
        self._line.send(Born(spawn.request, pid, warm, "" if warm else reason))
        return False

    def _leave(self, birth: Birth) -> None:
        """Cut a forked child's ties to the nursery and make it a process of its own."""
        self._line.close()
        self._waker.undo()
        if self._prepare.report_fd >= 0:
            os.close(self._prepare.report_fd)
        self._command_line.restore()
        linux.name_process(self._name)
        settle(birth)

    def _become_worker(self, nursery: int) -> None:
        """Give a warm worker what a fresh interpreter would have, and nothing else of ours."""
        assert self._warmth is not None
        self._warmth.seeds.renew()
        sys.path_importer_cache.clear()
        repeat(self._echo.stdout, self._echo.stderr)
        if self._prepare.report_fd >= 0:
            sys.meta_path.insert(0, Recorder(nursery, self._prepare.report_fd))
        signals.unblock()

    def _open_store(self, request: OpenStore) -> None:
        try:
            listener = store.listen(request.host)
        except OSError as error:
            refusal = f"cannot listen on {request.host}: {error.strerror}"
            self._line.send(Refused(request.request, refusal))
            return
        with listener:
            port = listener.getsockname()[1]
            nursery = os.getpid()
            pid = signals.fork()
            if pid == 0:
                self._host_store(listener.detach(), host=request.host, port=port, nursery=nursery)
        self._children.add(pid)
        self._line.send(StoreOpened(request.request, pid, port))

    def _host_store(self, listener: int, *, host: str, port: int, nursery: int) -> NoReturn:
        streams = [os.dup(number) for number in range(3)]
        self._leave(Birth(nursery, dict(os.environ), os.getcwd(), streams))
        if "torch" not in sys.modules:
            os.set_inheritable(listener, True)
            become(store.command(listener, host=host, port=port))
        signals.unblock()
        try:
            store.serve(listener, host=host, port=port)
        finally:
            os._exit(1)

    def _end(self) -> NoReturn:
        """Let nothing live on, then end."""
        self._children.kill_all()
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        while True:
            self._reap()
            pause = self._children.tend()
            if not self._children:
                os._exit(0)
            poll.poll(None if pause is None else pause * 1000)


def serve(descriptor: int, baseline: set[str]) -> None:
    """Be a nursery for the agent at the other end of `descriptor`. Returns in a warm worker."""
    line = Line(descriptor)
    try:
        prepare, _ = line.receive()
        assert isinstance(prepare, Prepare)
        os.environ.clear()
        os.environ.update(prepare.environ)
        server = Server(line, prepare, baseline)
    except LineEnded:
        os._exit(0)
    server.run()
