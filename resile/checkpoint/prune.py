"""Remove old checkpoints and the remains of unfinished writes.

The newest checkpoints by step are kept, the newest by time (a run that fell back to an older step
must not lose its new checkpoints to the higher steps of before), and always the newest undamaged
one. A checkpoint is removed manifest first: from then on it does not exist, so that a kill in the
middle leaves remains and never a checkpoint with missing parts.

The remains of unfinished writes are removed as well (:mod:`resile.checkpoint.remains`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from resile.checkpoint.errors import (
    CheckpointError,
    NotThere,
)
from resile.checkpoint.names import MANIFEST
from resile.checkpoint.remains import REMAINS_AGE, find_remains
from resile.checkpoint.shelf import Checkpoint, Depth, Shelf
from resile.checkpoint.storage import Item

__all__ = ["Pruning", "plan_pruning", "prune", "prune_after_publishing"]

log = logging.getLogger("resile.checkpoint")


@dataclass(frozen=True)
class Pruning:
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
    shelf: Shelf,
    *,
    keep: int,
    depth: Depth = Depth.SIZES,
    remains_age: float = REMAINS_AGE,
    tell: Callable[[str], None] = log.warning,
) -> Pruning:
    """Remove what :func:`plan_pruning` selects; returns the plan."""
    plan = plan_pruning(shelf, keep=keep, depth=depth, remains_age=remains_age, tell=tell)
    shelf.storage.delete(plan.manifests)
    shelf.storage.delete([*plan.files, *plan.remains])
    return plan


def prune_after_publishing(
    shelf: Shelf, *, keep: int, said: set[str], tell: Callable[[str], None] = log.warning
) -> None:
    """Remove old checkpoints, and report a failure to ``tell`` instead of raising it: it does not
    affect the checkpoint that was just published. ``keep`` 0 removes nothing.

    ``said``: messages reported before, which are not repeated after every checkpoint.
    """
    if keep < 1:
        return
    tell = _once(tell, said)
    try:
        prune(shelf, keep=keep, tell=tell)
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
    shelf: Shelf,
    *,
    keep: int,
    depth: Depth = Depth.SIZES,
    remains_age: float = REMAINS_AGE,
    tell: Callable[[str], None] = log.warning,
    now: Callable[[], float] = time.time,
) -> Pruning:
    """Select all but the newest ``keep`` checkpoints and the newest undamaged one, the checkpoints
    of superseded rounds, and old remains.

    ``depth``: how thoroughly a checkpoint is checked for damage.
    """
    if keep < 1:
        raise ValueError(f"at least one checkpoint must be kept, not {keep}")
    there = list(shelf.checkpoints(tell=tell))
    fence = shelf.fence(tell=tell)
    superseded = [one for one in there if fence.superseded(one.attempt, one.step)]
    lasting = [one for one in there if one not in superseded]
    doomed = [*superseded, *_doomed(shelf, lasting, keep, depth)]
    gone = find_remains(shelf, there, fence, age=remains_age, now=now)
    manifests: list[str] = []
    files: list[str] = []
    size = sum(item.size for one in gone for item in one.items)
    for checkpoint in doomed:
        for item in _files_of(shelf, checkpoint):
            path = f"{checkpoint.folder}/{item.name}"
            (manifests if item.name == MANIFEST else files).append(path)
            size += item.size
    steps = tuple(checkpoint.step for checkpoint in doomed)
    remains = tuple(path for one in gone for path in one.paths)
    return Pruning(steps, tuple(manifests), tuple(files), remains, size)


def _doomed(shelf: Shelf, there: list[Checkpoint], keep: int, depth: Depth) -> list[Checkpoint]:
    """The checkpoints to remove. ``there``: all of them, newest step first."""
    latest = sorted(there, key=lambda one: one.manifest.created, reverse=True)[:keep]
    kept = {one.step for one in (*there[:keep], *latest)}
    # Damage is not reported here: restoring and verifying do that.
    whole = next((one.step for one in there if not shelf.damages(one, depth)), None)
    return [one for one in there if one.step not in kept and one.step != whole]


def _files_of(shelf: Shelf, checkpoint: Checkpoint) -> list[Item]:
    try:
        items = shelf.storage.list(checkpoint.folder)
    except NotThere:
        return []
    return [item for item in items if item.name in checkpoint.names and not item.is_folder]
