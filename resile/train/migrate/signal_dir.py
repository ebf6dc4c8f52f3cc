"""Rank 0's use of the migration files, and its decision whether a starting run resumes.

No other worker writes the files. A request that is older than the run is never executed: the run
has nothing worth saving yet, and must not overwrite the earlier save.
"""

from __future__ import annotations

import fcntl
import time
from contextlib import suppress
from dataclasses import dataclass

from resile.checkpoint.errors import CheckpointError
from resile.train.migrate.file import clear_remains
from resile.train.migrate.signals import (
    SPENT,
    MigrationFiles,
    MigrationSignal,
    read_claim,
    read_signal,
    write_claim,
    write_word,
)

__all__ = [
    "MigrationVolume",
    "ResumeDecision",
    "Run",
    "VolumeState",
    "begin",
]


_NAMELESS = frozenset({"", "none"})
"""torchrun's ids of a run without ``--rdzv-id``."""


@dataclass(frozen=True)
class Run:
    """The identity of this run."""

    name: str
    restarted: bool
    """Whether the launcher restarted these workers after an earlier round."""

    def owns(self, claim: str) -> bool:
        """Return whether the claim is this run's. A run without a name owns only its own rounds."""
        return claim == self.claim and (self.name not in _NAMELESS or self.restarted)

    @property
    def claim(self) -> str:
        """The text that this run writes to claim a file."""
        return f"run {self.name}"


@dataclass(frozen=True)
class VolumeState:
    """The state of the volume when a run begins."""

    signal: MigrationSignal
    saved: bool
    claim: str


@dataclass(frozen=True)
class ResumeDecision:
    """The decision, and the new content of the files."""

    resume: bool
    signal: MigrationSignal
    claim: str | None = None
    """A new claim to write; None keeps the current one."""


def begin(found: VolumeState, run: Run) -> ResumeDecision:
    """Resume a save that was not loaded yet, or that this same run loaded before."""
    if not found.saved:
        return ResumeDecision(resume=False, signal=MigrationSignal.INIT)
    asked = found.signal is MigrationSignal.SAVE and found.claim != SPENT
    if found.signal is MigrationSignal.RESUME or asked:
        return ResumeDecision(resume=True, signal=MigrationSignal.RESUME)
    if run.owns(found.claim):
        return ResumeDecision(resume=True, signal=MigrationSignal.INIT)
    return ResumeDecision(resume=False, signal=MigrationSignal.INIT, claim=SPENT)


HOOK_WAIT = 5.0
"""Seconds for a hook to log that its save is done, before the container stops."""

_LOOK = 0.02


class MigrationVolume:
    """The migration files as used by this run."""

    def __init__(self, files: MigrationFiles, run: Run) -> None:
        self.files = files
        self._run = run
        self._taken = False

    def begin(self) -> bool:
        """Return whether this run resumes; cancels requests from before it."""
        clear_remains(self.files.checkpoint)
        found = VolumeState(
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
        """Mark the save as loaded. The claim comes first: a crash in between must not lose it."""
        self._taken = True
        write_claim(self.files, self._run.claim)
        write_word(self.files.signal, MigrationSignal.INIT.value)

    def is_requested(self) -> bool:
        """Return whether a hook requests a save; False while the volume is unavailable."""
        with suppress(OSError):
            return read_signal(self.files.signal) is MigrationSignal.SAVE
        return False

    def saved(self) -> None:
        """Mark a new save as ready for the next run."""
        write_word(self.files.claim, "")
        write_word(self.files.signal, MigrationSignal.RESUME.value)

    def not_saved(self) -> None:
        """Mark a save as failed, so that the hook stops waiting."""
        with suppress(CheckpointError):
            write_word(self.files.signal, MigrationSignal.INIT.value)

    def end(self) -> None:
        """Clean up after a run that ended without a migration."""
        with suppress(CheckpointError, OSError):
            if self._taken:
                write_claim(self.files, SPENT)
            if read_signal(self.files.signal) is MigrationSignal.SAVE:
                write_word(self.files.signal, MigrationSignal.INIT.value)

    def wait_for_hook(self) -> None:
        """Wait until the requesting hook has logged the end: it holds a lock on its log until then.

        Returns at once where there is no hook, or no locks.
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
