"""What can go wrong with training state at rest.

CheckpointError
├── PartDamaged          bytes are not what was written: wrong size, checksum or header
├── PartsMissing         parts that other nodes should have written did not come
├── NoCheckpoint         there is none that could be used
├── BadAddress           storage cannot be opened as the user named it
├── StorageTrouble       storage failed or went away; it may be back in a moment
│   ├── StorageRefused   full, not allowed, read-only: trying again does not help by itself
│   ├── NotThere         no such file or folder
│   └── NotAFile         something else lies where a file should
├── Superseded           a round that is over may not publish what it trained since
├── FolderTaken          the folder holds another job's checkpoints
├── NoRoom               a snapshot does not fit into memory
└── NotTrusted           reading it would run code that it brings along (pickle)
"""

from __future__ import annotations

__all__ = [
    "BadAddress",
    "CheckpointError",
    "FolderTaken",
    "NoCheckpoint",
    "NoRoom",
    "NotAFile",
    "NotThere",
    "NotTrusted",
    "PartDamaged",
    "PartsMissing",
    "StorageRefused",
    "StorageTrouble",
    "Superseded",
]


class CheckpointError(Exception):
    """Base of all; the text can be shown to a user as it is."""


class PartDamaged(CheckpointError):
    """Bytes are not what was written: wrong size, checksum or header. Names the part."""


class PartsMissing(CheckpointError):
    """Not all parts of a checkpoint were written in time. Names those that are not there."""


class NoCheckpoint(CheckpointError):
    """There is no checkpoint, or none that is whole."""


class BadAddress(CheckpointError):
    """Storage cannot be opened as the user named it: unknown kind, or its library is missing."""


class StorageTrouble(CheckpointError):
    """Storage failed or went away. Names the file and what the system said."""


class StorageRefused(StorageTrouble):
    """Storage is full, read-only or not ours to use: trying again does not help by itself."""


class NotThere(StorageTrouble):
    """No such file or folder."""


class NotAFile(StorageTrouble):
    """A folder, FIFO, socket or device lies where a regular file should."""


class Superseded(CheckpointError):
    """Another round went on from an earlier step. Says which, and from which step."""


class FolderTaken(CheckpointError):
    """The folder holds another job's checkpoints. Names the job, and what takes the folder over."""


class NoRoom(CheckpointError):
    """A snapshot does not fit into this node's memory."""


class NotTrusted(CheckpointError):
    """Reading this would run code it brings along; the user has to say that it is trusted."""
