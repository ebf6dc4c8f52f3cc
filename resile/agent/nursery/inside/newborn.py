"""A forked child, from the fork to its start as a worker or a store host.

A warm worker simply returns into the interpreter's own start-up, which reads and runs the script
as it would in any new process. A cold worker executes another program, and a store host serves
until it is killed. Errors before that are printed on the worker's own stderr, and it exits with
the codes of a shell: 126 for "cannot execute", 127 for "not found".

Signals are blocked until the child has its final form: those sent earlier stay pending.
"""

import gc
import io
import os
import sys
from typing import NamedTuple, NoReturn

from . import linux, signals, store
from .cold import show_hook
from .deferred import DeferredModules
from .exit_report import report_at_exit
from .importing import Warmth
from .latecomer import come_last
from .line import Line, LineEnded
from .messages import Echo, HostStore, Spawn
from .recorder import Recorder
from .rehearsals import rehearse_unless

_CANNOT_RUN = 126
_NOT_FOUND = 127


class Heritage(NamedTuple):
    """The state that a child inherits from its nursery.

    Attributes:
        parent: the nursery's process id.
        added: variables that the interpreter adds to its environment.
    """

    parent: int
    added: dict[str, str]
    echo: Echo
    preloaded: Warmth | None
    report_fd: int
    disguise: linux.Disguise


def grow_up(line: Line, context: Heritage) -> None:
    """Wait for a task and carry it out. Returns in a warm worker only."""
    os.setsid()
    linux.die_with(context.parent)
    deferred: DeferredModules | None = None
    if context.preloaded is not None:
        context.preloaded.seeds.renew()
        rehearse_unless(line)
        deferred = context.preloaded.defer()
    try:
        task, descriptors = line.receive()
    except LineEnded:
        os._exit(0)
    line.close()
    if isinstance(task, HostStore):
        _host_store(task, descriptors[0], forked=deferred is not None and deferred.has("torch"))
    context.disguise.drop()  # only workers show the command line
    assert isinstance(task, Spawn)
    _take_streams(descriptors)
    _take_place({**context.added, **task.environ} if task.warm else task.environ, task.cwd)
    if task.warm:
        linux.show_environment(task.environ)
    else:
        if task.hooked:
            show_hook(os.environ)
        _become(task.argv)
    assert deferred is not None
    _be_as_new(context, deferred)


def _take_streams(streams: list[int]) -> None:
    # They are above 2, since a nursery has 0 to 2 open when it receives them.
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number, inheritable=True)
        os.close(descriptor)
    stdout = sys.__stdout__
    # As the interpreter decides at its start. The stream objects stay the same: libraries may have
    # kept references since their import. Under -u everything is written through anyway.
    if isinstance(stdout, io.TextIOWrapper) and not stdout.write_through and os.isatty(1):
        stdout.reconfigure(line_buffering=True)


def _take_place(environ: dict[str, str], cwd: str) -> None:
    os.environ.clear()
    os.environ.update(environ)
    try:
        os.chdir(cwd)
    except OSError as error:
        _abort(f"cannot enter {cwd}: {error.strerror}", _CANNOT_RUN)


def _be_as_new(context: Heritage, deferred: DeferredModules) -> None:
    """Complete the state of a warm worker, so that it is like a fresh interpreter."""
    # The nursery's objects were frozen, so that waiting children share them. Among them is the
    # dictionary of `__main__`: if it were excluded from the last collection too, files that the
    # script left open would not be closed, and their data would be lost.
    gc.unfreeze()
    for stream, text in zip((sys.__stdout__, sys.__stderr__), context.echo, strict=True):
        if stream is not None:
            stream.write(text)
    if context.report_fd >= 0:
        recorder = Recorder(context.parent, context.report_fd)
        sys.meta_path.insert(0, recorder)
        deferred.tell(recorder.tell_of_unfit)
    come_last(os.environ)
    report_at_exit(os.environ)
    signals.unblock()


def _host_store(task: HostStore, listener: int, *, forked: bool) -> NoReturn:
    if not forked:
        os.set_inheritable(listener, True)
        _become(store.command(listener, host=task.host, port=task.port))
    signals.unblock()
    try:
        store.serve(listener, host=task.host, port=task.port)
    finally:
        os._exit(1)


def _become(argv: list[str]) -> NoReturn:
    """Execute a program in this process, looked up on the environment's PATH."""
    signals.reset_for_exec()
    signals.unblock()
    try:
        os.execvp(argv[0], argv)
    except FileNotFoundError:
        _abort(f"{argv[0]}: command not found", _NOT_FOUND)
    except OSError as error:
        _abort(f"cannot run {argv[0]}: {error.strerror}", _CANNOT_RUN)


def _abort(reason: str, code: int) -> NoReturn:
    os.write(2, f"resile: {reason}\n".encode(errors="replace"))
    os._exit(code)
