"""A forked child, from the fork to its start as a worker or a store host.

While it waits for its task a child runs warm-up hooks, for code that it will later need quickly. A
module defines its hook as a function named `__resile_rehearse__`, which must leave everything as it
was. Only the hooks of preloaded modules are called, so they are for libraries.

A warm worker simply returns into the interpreter's own start-up, which reads and runs the script as
it would in any new process. A cold worker executes another program, and a store host serves until
it is killed. Errors before that are printed on the worker's own stderr, and it exits with the codes
of a shell: 126 for "cannot execute", 127 for "not found".

Signals are blocked until the child has its final form: those sent earlier stay pending.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import select
import sys
from types import ModuleType
from typing import NamedTuple, NoReturn

from . import linux, signals, store
from .deferred import DeferredModules
from .import_recorder import ImportRecorder
from .preloading import PreloadedModules
from .protocol import BlockingChannel, ChannelEnded, Echo, HostStore, Spawn
from .worker_start import install_fallback_finder, report_at_exit, show_hook

HOOK_NAME = "__resile_rehearse__"


def run_warm_up_hooks(line: BlockingChannel) -> None:
    """Call the hooks of all modules, one after the other, until a task arrives on `line`."""
    # Read from the modules' dictionaries: an attribute access on a lazy module would import half of
    # it. Not every value is a module: None blocks the import of one.
    modules = [one for one in list(sys.modules.values()) if isinstance(one, ModuleType)]
    found = [vars(module).get(HOOK_NAME) for module in modules]
    orders = select.poll()
    orders.register(line, select.POLLIN)
    for deed in filter(callable, found):
        if orders.poll(0):
            return
        with contextlib.suppress(Exception):
            deed()


_CANNOT_RUN = 126
_NOT_FOUND = 127


class ChildContext(NamedTuple):
    """The state that a child inherits from its nursery.

    Attributes:
        parent: the nursery's process id.
        added: variables that the interpreter adds to its environment.
    """

    parent: int
    added: dict[str, str]
    echo: Echo
    preloaded: PreloadedModules | None
    report_fd: int
    title: linux.ProcessTitle


def become_worker(line: BlockingChannel, context: ChildContext) -> None:
    """Wait for a task and carry it out. Returns in a warm worker only."""
    os.setsid()
    linux.die_with(context.parent)
    deferred: DeferredModules | None = None
    if context.preloaded is not None:
        context.preloaded.seeds.renew()
        run_warm_up_hooks(line)
        deferred = context.preloaded.defer()
    try:
        task, descriptors = line.receive()
    except ChannelEnded:
        os._exit(0)
    line.close()
    if isinstance(task, HostStore):
        _host_store(task, descriptors[0], forked=deferred is not None and deferred.has("torch"))
    context.title.drop()  # only workers show the command line
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


def _be_as_new(context: ChildContext, deferred: DeferredModules) -> None:
    """Complete the state of a warm worker, so that it is like a fresh interpreter."""
    # The nursery's objects were frozen, so that waiting children share them. Among them is the
    # dictionary of `__main__`: if it were excluded from the last collection too, files that the
    # script left open would not be closed, and their data would be lost.
    gc.unfreeze()
    for stream, text in zip((sys.__stdout__, sys.__stderr__), context.echo, strict=True):
        if stream is not None:
            stream.write(text)
    if context.report_fd >= 0:
        recorder = ImportRecorder(context.parent, context.report_fd)
        sys.meta_path.insert(0, recorder)
        deferred.tell(recorder.report_unfit)
    install_fallback_finder(os.environ)
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
