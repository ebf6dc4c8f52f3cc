"""The main loop of a nursery: starts children on request, reaps them, and leaves none behind.

In the nursery itself `serve` never returns: it ends the process. In a forked warm worker it
returns, and the interpreter continues to run the script.
"""

import os
import select
from typing import NoReturn

from . import linux, store
from .child import ChildContext, become_worker
from .children import Children
from .prefork import InChild, PreforkPool
from .preloading import PreloadedModules, warm_up
from .protocol import (
    BlockingChannel,
    ChannelEnded,
    Echo,
    Exited,
    HostStore,
    Importing,
    Message,
    OpenStore,
    PreloadRequest,
    PreloadResult,
    RequestFailed,
    SignalWorker,
    Spawn,
    Spawned,
    StoreOpened,
)
from .signals import SignalWakeup

_TITLE = "resile: nursery"
_NAME = b"resile-nursery"

_IDLE = 2.0
"""Seconds without a request after which the nursery forks spare children: by then a burst of
requests is over, and workers that were just started have restored their state with all cores
available."""

_BETWEEN_SPARES = 0.05
"""Seconds between two such forks, so that they do not delay a request."""


class NurseryServer:
    """A nursery process."""

    def __init__(self, line: BlockingChannel, prepare: PreloadRequest, baseline: set[str]) -> None:
        self._line = line
        self._report_fd = prepare.report_fd
        self._echo = Echo("", "")
        self._children = Children(prepare.grace)
        self._prefork = PreforkPool(keep=prepare.preload is not None)
        self._preloaded = self._warm_up(prepare, baseline)
        self._waker = SignalWakeup()
        self._idle = False
        self._disguise = linux.ProcessTitle(_TITLE, _NAME)

    def run(self, added: dict[str, str]) -> None:
        """Serve until the agent is gone, then exit. Returns in a warm worker only."""
        try:
            while True:
                self._serve_once()
        except ChannelEnded:
            self._end()
        except InChild as child:
            line, parent = child.line, child.parent
        self._cut_ties()
        context = ChildContext(
            parent, added, self._echo, self._preloaded, self._report_fd, self._disguise
        )
        become_worker(line, context)

    def _warm_up(self, prepare: PreloadRequest, baseline: set[str]) -> PreloadedModules | None:
        if prepare.preload is None:
            self._line.send(PreloadResult([], [], False, "", {}, {}))
            return None
        # An import may hang; until there are workers, let the kernel kill this with the agent.
        linux.die_with(os.getppid())
        preloaded, ready = warm_up(
            prepare,
            baseline=baseline,
            announce=lambda name: self._line.send(Importing(name)),
        )
        linux.outlive_parent()
        self._line.send(ready)
        return preloaded

    def _serve_once(self) -> None:
        """Wait for one message and handle it."""
        if self._line.has_received() or self._wait():
            self._handle(*self._line.receive())

    def _wait(self) -> bool:
        """Wait for a message, a dead child or a timeout; return whether a message is there."""
        poll = select.poll()
        poll.register(self._line, select.POLLIN)
        poll.register(self._waker, select.POLLIN)
        look_again = self._children.kill_overdue()
        pauses = [look_again] if look_again is not None else []
        if self._prefork.wants_more():
            pauses.append(_BETWEEN_SPARES if self._idle else _IDLE)
        ready = dict(poll.poll(min(pauses) * 1000 if pauses else None))
        self._idle = not ready
        if self._waker.fileno() in ready:
            self._reap()
        elif not ready and look_again is None:
            self._restock()
        return self._line.fileno() in ready

    def _restock(self) -> None:
        pid = self._prefork.restock()
        if pid is not None:
            self._children.add(pid)

    def _reap(self) -> None:
        self._waker.drain()
        for pid, returncode in self._children.reap():
            if not self._prefork.remove_dead(pid):
                self._line.send(Exited(pid, returncode))

    def _handle(self, message: Message, descriptors: list[int]) -> None:
        if isinstance(message, Spawn):
            self._spawn(message, descriptors)
        elif isinstance(message, OpenStore):
            self._open_store(message)
        elif isinstance(message, SignalWorker):
            self._children.signal(message.pid, message.number)
        elif isinstance(message, Echo):
            self._echo = message

    def _spawn(self, spawn: Spawn, streams: list[int]) -> None:
        reason = (
            "nothing is preloaded" if self._preloaded is None else self._preloaded.reason_against()
        )
        warm = spawn.warm and not reason
        try:
            pid = self._prefork.assign(spawn._replace(warm=warm), streams)
        except OSError as error:
            self._line.send(RequestFailed(spawn.request, f"cannot start a process: {error}"))
        else:
            self._children.add(pid)
            self._line.send(Spawned(spawn.request, pid, warm, "" if warm else reason))
        finally:
            for descriptor in streams:
                os.close(descriptor)

    def _open_store(self, request: OpenStore) -> None:
        try:
            with store.listen(request.host, request.port) as listener:
                port = listener.getsockname()[1]
                pid = self._prefork.assign(HostStore(request.host, port), [listener.fileno()])
        except OSError as error:
            where = f"{request.host}:{request.port}" if request.port else request.host
            self._line.send(RequestFailed(request.request, f"no store on {where}: {error}"))
        else:
            self._children.add(pid)
            self._line.send(StoreOpened(request.request, pid, port))

    def _cut_ties(self) -> None:
        """In a forked child: close what belongs to the nursery."""
        self._line.close()
        self._prefork.abandon()
        self._waker.undo()
        if self._report_fd >= 0:
            os.close(self._report_fd)

    def _end(self) -> NoReturn:
        """Kill all children and their groups, then exit."""
        self._children.kill_all()
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        while True:
            self._reap()
            look_again = self._children.kill_overdue()
            if not self._children:
                os._exit(0)
            poll.poll(None if look_again is None else look_again * 1000)


def serve(descriptor: int, baseline: set[str]) -> None:
    """Serve the agent at the other end of `descriptor`. Returns in a warm worker only."""
    line = BlockingChannel(descriptor)
    try:
        prepare, _ = line.receive()
        assert isinstance(prepare, PreloadRequest)
        added = _added_by_interpreter(prepare.environ)
        os.environ.clear()
        os.environ.update({**added, **prepare.environ})
        server = NurseryServer(line, prepare, baseline)
    except ChannelEnded:
        os._exit(0)
    server.run(added)


def _added_by_interpreter(given: dict[str, str]) -> dict[str, str]:
    """Return the variables that the interpreter itself adds: LC_CTYPE in the C locale."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in given and name != "PYTHONPATH"
    }
