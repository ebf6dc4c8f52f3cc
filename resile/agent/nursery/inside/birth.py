"""The first moments of a forked child: from a copy of the nursery to a process of its own.

`settle` does what every child needs; a warm worker then simply returns into the interpreter's own
start-up, which reads and runs the script as it would in any new process, and a cold one becomes
another program. Whatever goes wrong before that is printed on the worker's own stderr and ends it
with the codes a shell uses: 126 for "cannot", 127 for "not found".
"""

import io
import os
import sys
from typing import NamedTuple, NoReturn

from . import linux, signals

CANNOT_RUN = 126
NOT_FOUND = 127


class Birth(NamedTuple):
    """What a child needs to know about itself."""

    parent: int
    environ: dict[str, str]
    cwd: str
    streams: list[int]


def settle(birth: Birth) -> None:
    """Found a session, die with the parent, and take over streams, folder and environment."""
    os.setsid()
    linux.die_with(birth.parent)
    _take_streams(birth.streams)
    os.environ.clear()
    os.environ.update(birth.environ)
    try:
        os.chdir(birth.cwd)
    except OSError as error:
        abort(f"cannot enter {birth.cwd}: {error.strerror}", CANNOT_RUN)


def become(argv: list[str]) -> NoReturn:
    """Replace this process by a program, looked up on the environment's PATH."""
    signals.reset_for_exec()
    signals.unblock()
    try:
        os.execvp(argv[0], argv)
    except FileNotFoundError:
        abort(f"{argv[0]}: command not found", NOT_FOUND)
    except OSError as error:
        abort(f"cannot run {argv[0]}: {error.strerror}", CANNOT_RUN)


def abort(reason: str, code: int) -> NoReturn:
    os.write(2, f"resile: {reason}\n".encode(errors="replace"))
    os._exit(code)


def repeat(stdout: str, stderr: str) -> None:
    """Print what importing printed in the nursery, as it would have been printed here."""
    for stream, text in ((sys.__stdout__, stdout), (sys.__stderr__, stderr)):
        if text and stream is not None:
            stream.write(text)


def _take_streams(streams: list[int]) -> None:
    # The caller's descriptors are above 2: the nursery has 0 to 2 open when it receives them.
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number, inheritable=True)
        os.close(descriptor)
    _buffer_as_at_start()


def _buffer_as_at_start() -> None:
    """Buffer stdout by the line on a terminal, as the interpreter decides when it starts.

    The stream objects themselves stay: libraries may hold on to them since they were imported.
    """
    stdout = sys.__stdout__
    # Under -u everything is written through, and stays so.
    if isinstance(stdout, io.TextIOWrapper) and not stdout.write_through and os.isatty(1):
        stdout.reconfigure(line_buffering=True)
