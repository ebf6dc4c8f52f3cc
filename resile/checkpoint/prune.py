"""Remove old checkpoints and the remains of unfinished writes.

The newest checkpoints by step are kept, the newest by time (a run that fell back to an older step
must not lose its new checkpoints to the higher steps of before), and always the newest undamaged
one. A checkpoint is removed manifest first: from then on it does not exist, so that a kill in the
middle leaves remains and never a checkpoint with missing parts.

Remains are parts that were never published, and temporary files. They can be removed once they can
no longer be published:

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

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from resile.checkpoint.catalog import Checkpoint, CheckpointCatalog, Depth
from resile.checkpoint.errors import (
    CheckpointError,
    NoCheckpoint,
    NotOnStorage,
    PartDamaged,
    StorageRefused,
)
from resile.checkpoint.fence import StorageFence
from resile.checkpoint.names import MANIFEST, attempt_of, is_ours, step_folder
from resile.checkpoint.storage.base import StorageItem

__all__ = [
    "PruningPlan",
    "REMAINS_AGE",
    "Remains",
    "discard_attempt",
    "find_remains",
    "plan_pruning",
    "prune",
    "prune_after_publishing",
    "remove_remains",
]


__all__ += ["write_or_make_room"]

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
    items: tuple[StorageItem, ...]

    @property
    def paths(self) -> list[str]:
        """The paths of the files on their storage."""
        return [f"{self.folder}/{item.name}" for item in self.items]

    @property
    def changed(self) -> float:
        """The time of the last change to any of the files, in Unix time."""
        return max(item.modified for item in self.items)


def find_remains(
    catalog: CheckpointCatalog,
    there: Sequence[Checkpoint],
    fence: StorageFence,
    *,
    age: float = REMAINS_AGE,
    now: Callable[[], float] = time.time,
) -> list[Remains]:
    """Find all remains that can be removed. ``there``: the checkpoints, newest first."""
    newest = there[0].step if there else -1
    return [
        one
        for one in _all_remains(catalog, there)
        if _is_over(one, fence) or (one.changed < now() - age and _is_past(one, fence, newest))
    ]


def remove_remains(catalog: CheckpointCatalog) -> int:
    """Remove all remains that can be removed; returns the number of bytes freed."""
    there = list(catalog.checkpoints(tell=lambda _: None))
    found = find_remains(catalog, there, catalog.fence())
    catalog.storage.delete(path for one in found for path in one.paths)
    return sum(item.size for one in found for item in one.items)


def discard_attempt(catalog: CheckpointCatalog, *, step: int, attempt: str) -> None:
    """Remove the parts of an attempt that will not be published, unless it was published after all.
    Storage errors are ignored: a later pruning removes what is left."""
    with suppress(CheckpointError):
        if not _never_published(catalog, step) and catalog.at(step).attempt == attempt:
            return
        folder = step_folder(step, catalog.group)
        ours = [item.name for item in catalog.storage.list(folder) if not item.is_folder]
        catalog.storage.delete(f"{folder}/{name}" for name in ours if attempt_of(name) == attempt)


def write_or_make_room(
    catalog: CheckpointCatalog, write: Callable[[], T], *, tell: Callable[[str], None]
) -> T:
    """Call ``write``; if storage is full, remove remains and try once more. Returns its result."""
    try:
        return write()
    except StorageRefused:
        freed = 0
        with suppress(CheckpointError):
            freed = remove_remains(catalog)
        if not freed:
            raise
    tell(f"removed {freed / 2**20:.0f} MiB left behind by unfinished writes")
    return write()


def _is_over(one: Remains, fence: StorageFence) -> bool:
    return bool(one.attempt and fence.superseded(one.attempt, one.step))


def _is_past(one: Remains, fence: StorageFence, newest: int) -> bool:
    """Whether the current round can no longer publish it."""
    latest = fence.latest
    return one.step <= newest or latest is None or fence.claim_of(one.attempt) != latest


def _all_remains(catalog: CheckpointCatalog, there: Sequence[Checkpoint]) -> Iterator[Remains]:
    by_step = {checkpoint.step: checkpoint for checkpoint in there}
    try:
        steps = catalog.steps()
    except NotOnStorage:
        return
    for step in steps:
        if step not in by_step and not _never_published(catalog, step):
            continue
        folder = step_folder(step, catalog.group)
        try:
            items = catalog.storage.list(folder)
        except NotOnStorage:
            continue
        published = by_step[step].names if step in by_step else frozenset()
        attempts: dict[str, list[StorageItem]] = defaultdict(list)
        for item in items:
            if is_ours(item.name) and not item.is_folder and item.name not in published:
                attempts[attempt_of(item.name)].append(item)
        for attempt, found in attempts.items():
            yield Remains(step, attempt, folder, tuple(found))


def _never_published(catalog: CheckpointCatalog, step: int) -> bool:
    try:
        catalog.at(step)
    except NoCheckpoint:
        return True
    except (PartDamaged, StorageRefused):
        pass
    return False


log = logging.getLogger("resile.checkpoint")


@dataclass(frozen=True)
class PruningPlan:
    """The files that a pruning removes."""

    steps: tuple[int, ...]
    """The steps of the checkpoints to remove."""

    manifests: tuple[str, ...]
    """Paths; removed before anything else."""

    files: tuple[str, ...]
    remains: tuple[str, ...]
    size: int
    """Bytes that are freed."""


def prune(
    catalog: CheckpointCatalog,
    *,
    keep: int,
    depth: Depth = Depth.SIZES,
    remains_age: float = REMAINS_AGE,
    tell: Callable[[str], None] = log.warning,
) -> PruningPlan:
    """Remove what :func:`plan_pruning` selects; returns the plan."""
    plan = plan_pruning(catalog, keep=keep, depth=depth, remains_age=remains_age, tell=tell)
    catalog.storage.delete(plan.manifests)
    catalog.storage.delete([*plan.files, *plan.remains])
    return plan


def prune_after_publishing(
    catalog: CheckpointCatalog,
    *,
    keep: int,
    said: set[str],
    tell: Callable[[str], None] = log.warning,
) -> None:
    """Remove old checkpoints, and report a failure to ``tell`` instead of raising it: it does not
    affect the checkpoint that was just published. ``keep`` 0 removes nothing.

    ``said``: messages reported before, which are not repeated after every checkpoint.
    """
    if keep < 1:
        return
    tell = _once(tell, said)
    try:
        prune(catalog, keep=keep, tell=tell)
    except CheckpointError as error:
        tell(f"old checkpoints could not be removed: {error}")
    except Exception as error:
        tell(f"old checkpoints could not be removed: {type(error).__name__}: {error}")
        log.debug("pruning failed", exc_info=True)


def _once(tell: Callable[[str], None], said: set[str]) -> Callable[[str], None]:
    def tell_news(text: str) -> None:
        if text not in said:
            said.add(text)
            tell(text)

    return tell_news


def plan_pruning(
    catalog: CheckpointCatalog,
    *,
    keep: int,
    depth: Depth = Depth.SIZES,
    remains_age: float = REMAINS_AGE,
    tell: Callable[[str], None] = log.warning,
    now: Callable[[], float] = time.time,
) -> PruningPlan:
    """Select all but the newest ``keep`` checkpoints and the newest undamaged one, the checkpoints
    of superseded rounds, and old remains.

    ``depth``: how thoroughly a checkpoint is checked for damage.
    """
    if keep < 1:
        raise ValueError(f"at least one checkpoint must be kept, not {keep}")
    there = list(catalog.checkpoints(tell=tell))
    fence = catalog.fence(tell=tell)
    superseded = [one for one in there if fence.superseded(one.attempt, one.step)]
    lasting = [one for one in there if one not in superseded]
    doomed = [*superseded, *_doomed(catalog, lasting, keep, depth)]
    gone = find_remains(catalog, there, fence, age=remains_age, now=now)
    manifests: list[str] = []
    files: list[str] = []
    size = sum(item.size for one in gone for item in one.items)
    for checkpoint in doomed:
        for item in _files_of(catalog, checkpoint):
            path = f"{checkpoint.folder}/{item.name}"
            (manifests if item.name == MANIFEST else files).append(path)
            size += item.size
    steps = tuple(checkpoint.step for checkpoint in doomed)
    remains = tuple(path for one in gone for path in one.paths)
    return PruningPlan(steps, tuple(manifests), tuple(files), remains, size)


def _doomed(
    catalog: CheckpointCatalog, there: list[Checkpoint], keep: int, depth: Depth
) -> list[Checkpoint]:
    """The checkpoints to remove. ``there``: all of them, newest step first."""
    latest = sorted(there, key=lambda one: one.manifest.created, reverse=True)[:keep]
    kept = {one.step for one in (*there[:keep], *latest)}
    # Damage is not reported here: restoring and verifying do that.
    whole = next((one.step for one in there if not catalog.damages(one, depth)), None)
    return [one for one in there if one.step not in kept and one.step != whole]


def _files_of(catalog: CheckpointCatalog, checkpoint: Checkpoint) -> list[StorageItem]:
    try:
        items = catalog.storage.list(checkpoint.folder)
    except NotOnStorage:
        return []
    return [item for item in items if item.name in checkpoint.names and not item.is_folder]
