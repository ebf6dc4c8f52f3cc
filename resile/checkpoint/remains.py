"""The remains of unfinished writes: parts that were never published, temporary files.

They can be removed once they can no longer be published:

* at once, if a later round continued from before their step (:mod:`resile.checkpoint.fence`), or if
  the writer that would have published them has given up;
* otherwise when no file of their attempt has changed for an hour. An active writer changes its file
  all the time, and one that is done waits for the others for minutes, not for an hour. What the
  current round wrote beyond the newest checkpoint is kept even then: it may be uploading a part to
  an object store, where nothing is visible before the upload ends.

A folder whose manifest cannot be read is left alone, since it may be from a newer Resile; so are
files whose names are not Resile's.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from resile.checkpoint.errors import (
    CheckpointError,
    NoCheckpoint,
    NotThere,
    PartDamaged,
    StorageRefused,
)
from resile.checkpoint.fence import Fence
from resile.checkpoint.names import attempt_of, is_ours, step_folder
from resile.checkpoint.shelf import Checkpoint, Shelf
from resile.checkpoint.storage import Item

__all__ = ["REMAINS_AGE", "Remains", "discard_attempt", "find_remains", "remove_remains"]
__all__ += ["with_room"]

T = TypeVar("T")

REMAINS_AGE = 3600.0
"""Seconds. No writer is silent for so long: before its timeout it gives up or makes progress."""


@dataclass(frozen=True)
class Remains:
    """Files of an attempt at a step that was never published."""

    step: int
    attempt: str
    """Empty for temporary files of manifests."""

    folder: str
    items: tuple[Item, ...]

    @property
    def paths(self) -> list[str]:
        """The paths of the files on their storage."""
        return [f"{self.folder}/{item.name}" for item in self.items]

    @property
    def changed(self) -> float:
        """The time of the last change to any of the files, in Unix time."""
        return max(item.modified for item in self.items)


def find_remains(
    shelf: Shelf,
    there: Sequence[Checkpoint],
    fence: Fence,
    *,
    age: float = REMAINS_AGE,
    now: Callable[[], float] = time.time,
) -> list[Remains]:
    """Find all remains that can be removed. ``there``: the checkpoints, newest first."""
    newest = there[0].step if there else -1
    return [
        one
        for one in _all_remains(shelf, there)
        if _is_over(one, fence) or (one.changed < now() - age and _is_past(one, fence, newest))
    ]


def remove_remains(shelf: Shelf) -> int:
    """Remove all remains that can be removed; returns the number of bytes freed."""
    there = list(shelf.checkpoints(tell=lambda _: None))
    found = find_remains(shelf, there, shelf.fence())
    shelf.storage.delete(path for one in found for path in one.paths)
    return sum(item.size for one in found for item in one.items)


def discard_attempt(shelf: Shelf, *, step: int, attempt: str) -> None:
    """Remove the parts of an attempt that will not be published, unless it was published after all.
    Storage errors are ignored: a later pruning removes what is left."""
    with suppress(CheckpointError):
        if not _never_published(shelf, step) and shelf.at(step).attempt == attempt:
            return
        folder = step_folder(step, shelf.group)
        ours = [item.name for item in shelf.storage.list(folder) if not item.is_folder]
        shelf.storage.delete(f"{folder}/{name}" for name in ours if attempt_of(name) == attempt)


def with_room(shelf: Shelf, write: Callable[[], T], *, tell: Callable[[str], None]) -> T:
    """Call ``write``; if storage is full, remove remains and try once more. Returns its result."""
    try:
        return write()
    except StorageRefused:
        freed = 0
        with suppress(CheckpointError):
            freed = remove_remains(shelf)
        if not freed:
            raise
    tell(f"removed {freed / 2**20:.0f} MiB left behind by unfinished writes")
    return write()


def _is_over(one: Remains, fence: Fence) -> bool:
    return bool(one.attempt and fence.superseded(one.attempt, one.step))


def _is_past(one: Remains, fence: Fence, newest: int) -> bool:
    """Whether the current round can no longer publish it."""
    latest = fence.latest
    return one.step <= newest or latest is None or fence.claim_of(one.attempt) != latest


def _all_remains(shelf: Shelf, there: Sequence[Checkpoint]) -> Iterator[Remains]:
    by_step = {checkpoint.step: checkpoint for checkpoint in there}
    try:
        steps = shelf.steps()
    except NotThere:
        return
    for step in steps:
        if step not in by_step and not _never_published(shelf, step):
            continue
        folder = step_folder(step, shelf.group)
        try:
            items = shelf.storage.list(folder)
        except NotThere:
            continue
        published = by_step[step].names if step in by_step else frozenset()
        attempts: dict[str, list[Item]] = defaultdict(list)
        for item in items:
            if is_ours(item.name) and not item.is_folder and item.name not in published:
                attempts[attempt_of(item.name)].append(item)
        for attempt, found in attempts.items():
            yield Remains(step, attempt, folder, tuple(found))


def _never_published(shelf: Shelf, step: int) -> bool:
    try:
        shelf.at(step)
    except NoCheckpoint:
        return True
    except (PartDamaged, StorageRefused):
        pass
    return False
