"""The logs that the hooks of a pod keep beside the signal file.

A hook holds a lock on its log while it works. Training that has saved for it waits for the lock
before it ends: in a container the hook would be killed with it, in the middle of its last line.
"""

from __future__ import annotations

import fcntl
import time
from contextlib import suppress
from pathlib import Path

import click

__all__ = ["HookLog", "files_option"]

files_option = click.option(
    "--signal",
    "signal_path",
    metavar="FILE",
    help="The signal file [$MIGRATION_SIGNAL_PATH, else ckpts/signal].",
)


class HookLog:
    """One hook's, open for its time."""

    def __init__(self, path: Path) -> None:
        """Raises ClickException if it cannot be written."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a")
        except OSError as error:
            raise click.ClickException(
                f"cannot write {path}: {error.strerror}; the folder of the signal file "
                "(--signal or MIGRATION_SIGNAL_PATH) has to be on a volume that can be written"
            ) from None
        with suppress(OSError):  # not every network file system has locks
            fcntl.flock(self._file, fcntl.LOCK_SH)

    def stamp(self, what: str) -> None:
        """What happens, and the date as the command of that name writes it."""
        self._write(f"{what}: {time.strftime('%a %b %d %H:%M:%S UTC %Y', time.gmtime())}")

    def note(self, text: str) -> None:
        """A line with its time."""
        self._write(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime())} {text}")

    def _write(self, line: str) -> None:
        self._file.write(line + "\n")
        self._file.flush()

    def __enter__(self) -> HookLog:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()
