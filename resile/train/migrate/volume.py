"""What rank 0 does with the files of a migration: it alone of all workers writes them."""

from __future__ import annotations

import fcntl
import time
from contextlib import suppress

from resile.checkpoint.errors import CheckpointError
from resile.train.migrate.beginning import Found, Run, begin
from resile.train.migrate.saving import clear_remains
from resile.train.migrate.signals import (
    SPENT,
    MigrationFiles,
    Signal,
    read_claim,
    read_signal,
    write_claim,
    write_word,
)

__all__ = ["Volume"]

HOOK_WAIT = 5.0
"""Seconds that a hook has to note that its save is done, before the container ends under it."""

_LOOK = 0.02


class Volume:
    """The files, and this run's dealings with them."""

    def __init__(self, files: MigrationFiles, run: Run) -> None:
        self.files = files
        self._run = run
        self._taken = False

    def begin(self) -> bool:
        """Whether this run resumes; requests of before are void from here on."""
        clear_remains(self.files.checkpoint)
        found = Found(
            signal=read_signal(self.files.signal),
            saved=self.files.checkpoint.is_file(),
            claim=read_claim(self.files),
        )
        beginning = begin(found, self._run)
        if beginning.claim is not None:
            write_claim(self.files, beginning.claim)
        if beginning.signal is not found.signal or not self.files.signal.exists():
            write_word(self.files.signal, beginning.signal.value)
        return beginning.resume

    def take(self) -> None:
        """The save is loaded. The claim comes first: a crash between the two must not lose it."""
        self._taken = True
        write_claim(self.files, self._run.claim)
        write_word(self.files.signal, Signal.INIT.value)

    def is_requested(self) -> bool:
        """Whether a hook asks for a save. A volume that is away for a moment asks for nothing."""
        with suppress(OSError):
            return read_signal(self.files.signal) is Signal.SAVE
        return False

    def saved(self) -> None:
        """A new save is there, for the next run."""
        write_word(self.files.claim, "")
        write_word(self.files.signal, Signal.RESUME.value)

    def not_saved(self) -> None:
        """There is none; whoever asked need not wait."""
        with suppress(CheckpointError):
            write_word(self.files.signal, Signal.INIT.value)

    def end(self) -> None:
        """The run is over and was not moved."""
        with suppress(CheckpointError, OSError):
            if self._taken:
                write_claim(self.files, SPENT)
            if read_signal(self.files.signal) is Signal.SAVE:
                write_word(self.files.signal, Signal.INIT.value)

    def wait_for_hook(self) -> None:
        """Until the hook that asked has noted the end: while it waits it holds a lock on its log.

        Where there is no hook, or no locks, nobody is waited for.
        """
        deadline = time.monotonic() + HOOK_WAIT
        with suppress(OSError), self.files.prestop_log.open("rb") as file:
            while time.monotonic() < deadline:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(_LOOK)
                else:
                    return
