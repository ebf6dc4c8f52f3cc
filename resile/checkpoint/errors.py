"""Errors of checkpoints and snapshots.

CheckpointError
├── PartDamaged          bytes differ from what was written: wrong size, checksum or header
├── PartsMissing         other nodes did not write all parts in time
├── NoCheckpoint         there is no usable checkpoint
├── BadAddress           the storage address given by the user cannot be opened
├── StorageError       storage failed or is unavailable; a retry may succeed
│   ├── StorageRefused   full, not allowed, read-only: a retry alone does not help
│   ├── NotOnStorage         no such file or folder
│   └── NotAStorageFile         the path is not a regular file
├── Superseded           a superseded round may not publish what it trained afterwards
├── FolderTaken          the folder holds another job's checkpoints
├── NoMemoryForSnapshot               a snapshot does not fit into memory
└── NotTrusted           reading it would run code that it contains (pickle)
"""

from __future__ import annotations

__all__ = [
    "BadAddress",
    "CheckpointError",
    "FolderTaken",
    "NoCheckpoint",
    "NoMemoryForSnapshot",
    "NotAStorageFile",
    "NotOnStorage",
    "NotTrusted",
    "PartDamaged",
    "PartsMissing",
    "StorageRefused",
    "StorageError",
    "Superseded",
]


class CheckpointError(Exception):
    """Base class; the text can be shown to a user unchanged."""


class PartDamaged(CheckpointError):
    """Bytes differ from what was written: wrong size, checksum or header. Names the part."""


class PartsMissing(CheckpointError):
    """Not all parts of a checkpoint were written in time. Names the missing ones."""


class NoCheckpoint(CheckpointError):
    """There is no checkpoint, or none that is complete and undamaged."""


class BadAddress(CheckpointError):
    """The storage address cannot be opened: unknown scheme, or its library is missing."""


class StorageError(CheckpointError):
    """Storage failed or is unavailable. Names the file and the system's error."""


class StorageRefused(StorageError):
    """Storage is full, read-only or access is denied: a retry alone does not help."""


class NotOnStorage(StorageError):
    """No such file or folder."""


class NotAStorageFile(StorageError):
    """The path is a folder, FIFO, socket or device instead of a regular file."""


class Superseded(CheckpointError):
    """A later round continued from an earlier step. Names the round and the step."""


class FolderTaken(CheckpointError):
    """The folder holds another job's checkpoints. Names the job and how to take the folder over."""


class NoMemoryForSnapshot(CheckpointError):
    """A snapshot does not fit into this node's memory."""


class NotTrusted(CheckpointError):
    """Reading this would run code that it contains; the user has to declare it trusted."""
