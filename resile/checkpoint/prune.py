"""Remove old checkpoints, and what writes that came to no end have left behind.

Kept are the newest by step, the newest by time (a run that fell back to an older step must not lose
what it writes now to the steps it left behind), and always the newest that is whole. A checkpoint
is removed manifest first: from then on it does not exist, so that a kill in the middle leaves
remains and never a checkpoint that lacks parts.

What unfinished writes left behind goes as well (:mod:`resile.checkpoint.remains`).
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
    """What is to be removed."""

    steps: tuple[int, ...]
    """Of the checkpoints that go."""

    manifests: tuple[str, ...]
    """Removed before anything else."""

    files: tuple[str, ...]
    remains: tuple[str, ...]
    size: int
    """Bytes that become free."""


def prune(
    shelf: Shelf,
    *,
    keep: int,
    depth: Depth = Depth.SIZES,
    remains_age: float = REMAINS_AGE,
    tell: Callable[[str], None] = log.warning,
) -> Pruning:
    """Remove what :func:`plan_pruning` says, and say what it was."""
    plan = plan_pruning(shelf, keep=keep, depth=depth, remains_age=remains_age, tell=tell)
    shelf.storage.delete(plan.manifests)
    shelf.storage.delete([*plan.files, *plan.remains])
    return plan


def prune_after_publishing(
    shelf: Shelf, *, keep: int, said: set[str], tell: Callable[[str], None] = log.warning
) -> None:
    """Remove old checkpoints, or say why that did not work: a checkpoint that exists stays one,
    whatever happens to those before it. ``keep`` 0 removes nothing.

    ``said``: what was told before, which is not told again after every checkpoint.
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
    """All but the newest ``keep`` checkpoints and the newest whole one, those of superseded rounds,
    and old remains.

    ``depth``: how closely is looked at whether one is whole.
    """
    if keep < 1:
        raise ValueError(f"at least one checkpoint is kept, not {keep}")
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
    """The checkpoints that go, given all, newest step first."""
    latest = sorted(there, key=lambda one: one.manifest.created, reverse=True)[:keep]
    kept = {one.step for one in (*there[:keep], *latest)}
    # Damage is not told of here: whoever restores or verifies says it.
    whole = next((one.step for one in there if not shelf.damages(one, depth)), None)
    return [one for one in there if one.step not in kept and one.step != whole]


def _files_of(shelf: Shelf, checkpoint: Checkpoint) -> list[Item]:
    try:
        items = shelf.storage.list(checkpoint.folder)
    except NotThere:
        return []
    return [item for item in items if item.name in checkpoint.names and not item.is_folder]
