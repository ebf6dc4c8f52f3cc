"""Start a node's program from its supervisor: fork, set up the child, exec.

The child leads a session of its own, is killed by the kernel if the supervisor dies, and is in its
cgroups before the first instruction of the node's program. Its output goes where the supervisor's
goes: to the node's log. If anything fails before the program runs, the reason is sent over a pipe
that the exec closes.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from resile.platform.local.linux import die_with
from resile.platform.local.messages import Bear

__all__ = ["NotBornError", "bear"]

_NOT_STARTED = 127


class NotBornError(Exception):
    """The program could not be started; the message says why."""


def bear(order: Bear) -> int:
    """Start the node's program and return its pid. Must be called without other threads."""
    supervisor = os.getpid()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(order, supervisor=supervisor, writer=writer)
    os.close(writer)
    with open(reader, "rb") as pipe:
        why = pipe.read().decode(errors="replace")
    if why:
        os.waitpid(pid, 0)
        raise NotBornError(why)
    return pid


def _become(order: Bear, *, supervisor: int, writer: int) -> NoReturn:
    try:
        os.setsid()
        die_with(supervisor)
        _join(order.cgroups)
        _enter(order.cwd)
        _reset_signals()
        _close_stdin()
        _run(order)
    except BaseException as error:
        os.write(writer, str(error).encode(errors="replace"))
    finally:
        os._exit(_NOT_STARTED)


def _join(cgroups: list[str]) -> None:
    for folder in cgroups:
        try:
            with open(f"{folder}/cgroup.procs", "w") as file:
                file.write("0")
        except OSError as error:
            raise NotBornError(f"cannot enter the cgroup {folder}: {error.strerror}") from None


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise NotBornError(f"working directory {folder}: {error.strerror}") from None


def _reset_signals() -> None:
    """Restore default handlers: ignored signals stay ignored over an exec, handled ones do not."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _close_stdin() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)


def _run(order: Bear) -> None:
    program = order.argv[0]
    try:
        os.execvpe(program, order.argv, order.env)
    except FileNotFoundError:
        where = "there is no such file" if "/" in program else "it is not on the PATH"
        raise NotBornError(f"cannot run {program}: {where}") from None
    except OSError as error:
        raise NotBornError(f"cannot run {program}: {error.strerror}") from None
