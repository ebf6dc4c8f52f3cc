"""What unfinished writes have left behind: parts that were never published, temporary files.

They can be removed when nobody can publish them any more:

* at once, if a later round went on from before their step (:mod:`resile.checkpoint.fence`), or if
  the one writer that would have published them has given up;
* else when nothing of their attempt changed for an hour. A writer that is at work changes its file
  all the time, and one that is done waits for the others for minutes, not for an hour. The round
  that trains now keeps what it wrote beyond the newest checkpoint even then: it may be uploading a
  part to an object store, which shows nothing before its end.

A folder whose manifest cannot be read is left alone, it may be of a newer Resile; so are files with
names that are not ours.
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
"""Seconds. No writer is silent for so long: within its patience it gives up or goes on."""


@dataclass(frozen=True)
class Remains:
    """Files of one attempt at one step that was never published."""

    step: int
    attempt: str
    """Empty for temporary files of manifests."""

    folder: str
    items: tuple[Item, ...]

    @property
    def paths(self) -> list[str]:
        """Where they lie on their storage."""
        return [f"{self.folder}/{item.name}" for item in self.items]

    @property
    def changed(self) -> float:
        """When anything of it changed last, in Unix time."""
        return max(item.modified for item in self.items)


def find_remains(
    shelf: Shelf,
    there: Sequence[Checkpoint],
    fence: Fence,
    *,
    age: float = REMAINS_AGE,
    now: Callable[[], float] = time.time,
) -> list[Remains]:
    """All that can be removed. ``there``: the checkpoints, newest first."""
    newest = there[0].step if there else -1
    return [
        one
        for one in _all_remains(shelf, there)
        if _is_over(one, fence) or (one.changed < now() - age and _is_past(one, fence, newest))
    ]


def remove_remains(shelf: Shelf) -> int:
    """Remove what can be removed; returns how many bytes that was."""
    there = list(shelf.checkpoints(tell=lambda _: None))
    found = find_remains(shelf, there, shelf.fence())
    shelf.storage.delete(path for one in found for path in one.paths)
    return sum(item.size for one in found for item in one.items)


def discard_attempt(shelf: Shelf, *, step: int, attempt: str) -> None:
    """Remove the parts of an attempt that nobody will publish, if they were not published after
    all. What storage says to that is of no interest: there will be another occasion."""
    with suppress(CheckpointError):
        if not _never_published(shelf, step) and shelf.at(step).attempt == attempt:
            return
        folder = step_folder(step, shelf.group)
        ours = [item.name for item in shelf.storage.list(folder) if not item.is_folder]
        shelf.storage.delete(f"{folder}/{name}" for name in ours if attempt_of(name) == attempt)


def with_room(shelf: Shelf, write: Callable[[], T], *, tell: Callable[[str], None]) -> T:
    """What ``write`` returns; if storage is full, it is tried once more without the remains."""
    try:
        return write()
    except StorageRefused:
        freed = 0
        with suppress(CheckpointError):
            freed = remove_remains(shelf)
        if not freed:
            raise
    tell(f"removed {freed / 2**20:.0f} MiB that unfinished writes had left behind")
    return write()


def _is_over(one: Remains, fence: Fence) -> bool:
    return bool(one.attempt and fence.superseded(one.attempt, one.step))


def _is_past(one: Remains, fence: Fence, newest: int) -> bool:
    """Whether the round that trains now has nothing to do with it any more."""
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
