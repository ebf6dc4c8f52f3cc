"""The files through which the hooks of a pod and the training in it meet; no torch.

The signal file holds one word. ``init``: nothing is asked. ``save``: a hook asks for a save.
``resume``: a save is there that no run has loaded. Only rank 0 of a job and the hooks write it,
always whole (temporary name, sync, rename), so that nobody ever reads half a word.

The claim lies beside the saved file and says whose it is: of nobody yet (empty), of the run that
loaded it, or of none any more (spent). It keeps a save from being resumed by an unrelated run on
the same volume, and lets a run that crashed after loading load again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from resile.checkpoint.local_storage import LocalStorage

__all__ = [
    "SPENT",
    "MigrationFiles",
    "Signal",
    "read_claim",
    "read_signal",
    "write_claim",
    "write_word",
]

CHECKPOINT_VARIABLE = "MIGRATION_CKPT_PATH"
SIGNAL_VARIABLE = "MIGRATION_SIGNAL_PATH"

SPENT = "spent"
"""The claim on a file whose run is over."""


class Signal(str, Enum):
    """What the signal file says."""

    INIT = "init"
    SAVE = "save"
    RESUME = "resume"


@dataclass(frozen=True)
class MigrationFiles:
    """Where everything lies."""

    checkpoint: Path
    signal: Path

    @classmethod
    def from_environment(cls, *, signal: str | None = None) -> MigrationFiles:
        """As the variables say; in ./ckpts where they do not. ``signal``: said otherwise."""
        where = signal or os.environ.get(SIGNAL_VARIABLE) or "ckpts/signal"
        checkpoint = os.environ.get(CHECKPOINT_VARIABLE) or "ckpts/migration.pth"
        return cls(checkpoint=Path(checkpoint).absolute(), signal=Path(where).absolute())

    @property
    def claim(self) -> Path:
        """Whose the saved file is."""
        return self.checkpoint.with_name(f".{self.checkpoint.name}.claim")

    @property
    def prestop_log(self) -> Path:
        """What the hook before a stop did."""
        return self.signal.with_name("preStop.log")

    @property
    def poststart_log(self) -> Path:
        """When the pod started."""
        return self.signal.with_name("postStart.log")


def read_signal(path: Path) -> Signal:
    """The word in the file; ``init`` if there is none, or another one."""
    word = _read_word(path)
    return Signal(word) if word in set(Signal) else Signal.INIT


def read_claim(files: MigrationFiles) -> str:
    """Whose the saved file is; empty for nobody's. A claim on an older save counts no more."""
    owner, _, which = _read_word(files.claim).partition("\n")
    return owner if which == _identity(files.checkpoint) else ""


def write_claim(files: MigrationFiles, owner: str) -> None:
    """Say whose the saved file is. Raises StorageTrouble."""
    write_word(files.claim, f"{owner}\n{_identity(files.checkpoint)}")


def write_word(path: Path, word: str) -> None:
    """Write a word whole and durable. Raises StorageTrouble."""
    LocalStorage(path.parent).write(path.name, [memoryview(word.encode())])


def _read_word(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return ""


def _identity(path: Path) -> str:
    """Tells one save from another under the same name."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_size} {found.st_mtime_ns}"
