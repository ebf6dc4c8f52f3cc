"""The files shared by a pod's hooks and the training in it. Does not import torch.

The signal file holds one word. ``init``: nothing is requested. ``save``: a hook requests a save.
``resume``: there is a save that no run has loaded. Only rank 0 of a job and the hooks write it,
always atomically (temporary name, sync, rename), so that no reader sees half a word.

The claim is a file beside the saved one and names its owner: none yet (empty), the run that loaded
it, or ``spent``. It keeps a save from being resumed by an unrelated run on the same volume, and
lets a run that crashed after loading load again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from resile.checkpoint.storage.local import LocalStorage

__all__ = [
    "SPENT",
    "MigrationFiles",
    "MigrationSignal",
    "read_claim",
    "read_signal",
    "write_claim",
    "write_word",
]

CHECKPOINT_VARIABLE = "MIGRATION_CKPT_PATH"
SIGNAL_VARIABLE = "MIGRATION_SIGNAL_PATH"

SPENT = "spent"
"""The claim on a save whose run has ended."""


class MigrationSignal(str, Enum):
    """The word in the signal file."""

    INIT = "init"
    SAVE = "save"
    RESUME = "resume"


@dataclass(frozen=True)
class MigrationFiles:
    """The paths of the files."""

    checkpoint: Path
    signal: Path

    @classmethod
    def from_environment(cls, *, signal: str | None = None) -> MigrationFiles:
        """Read the variables, with defaults in ./ckpts. ``signal``: overrides its variable."""
        where = signal or os.environ.get(SIGNAL_VARIABLE) or "ckpts/signal"
        checkpoint = os.environ.get(CHECKPOINT_VARIABLE) or "ckpts/migration.pth"
        return cls(checkpoint=Path(checkpoint).absolute(), signal=Path(where).absolute())

    @property
    def claim(self) -> Path:
        """The file that names the owner of the saved file."""
        return self.checkpoint.with_name(f".{self.checkpoint.name}.claim")

    @property
    def prestop_log(self) -> Path:
        """The log of the preStop hook."""
        return self.signal.with_name("preStop.log")

    @property
    def poststart_log(self) -> Path:
        """The log of the postStart hook."""
        return self.signal.with_name("postStart.log")


def read_signal(path: Path) -> MigrationSignal:
    """Return the word in the file; ``init`` if it is missing or unknown."""
    word = _read_word(path)
    return MigrationSignal(word) if word in set(MigrationSignal) else MigrationSignal.INIT


def read_claim(files: MigrationFiles) -> str:
    """Return the owner of the saved file; empty for none. A claim on an older save is ignored."""
    owner, _, which = _read_word(files.claim).partition("\n")
    return owner if which == _identity(files.checkpoint) else ""


def write_claim(files: MigrationFiles, owner: str) -> None:
    """Set the owner of the saved file. Raises StorageError."""
    write_word(files.claim, f"{owner}\n{_identity(files.checkpoint)}")


def write_word(path: Path, word: str) -> None:
    """Write a word atomically and durably. Raises StorageError."""
    LocalStorage(path.parent).write(path.name, [memoryview(word.encode())])


def _read_word(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _identity(path: Path) -> str:
    """The identity of a save, to distinguish it from others under the same name."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_size} {found.st_mtime_ns}"
