"""Remove old checkpoints, and what writes that came to no end have left behind.

Kept are the newest by step, the newest by time (a run that fell back to an older step must not lose
what it writes now to the steps it left behind), and always the newest that is whole. A checkpoint
is removed manifest first: from then on it does not exist, so that a kill in the middle leaves
remains and never a checkpoint that lacks parts.

Remains (parts of attempts that were never published, temporary files) are removed only when they
are old *and* their step is not beyond the newest checkpoint: what is beyond may be being written at
this moment by another node. A folder whose manifest cannot be read is left alone, it may be of a
newer Resile; so are files with names that are not ours.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from resile.checkpoint.errors import (
    CheckpointError,
    NoCheckpoint,
    NotThere,
    PartDamaged,
    StorageRefused,
)
from resile.checkpoint.names import ENTRY_ENDING, MANIFEST, PART_ENDING, is_ours, step_folder
from resile.checkpoint.shelf import Checkpoint, Depth, Shelf
from resile.checkpoint.storage import Item

__all__ = ["REMAINS_AGE", "Pruning", "plan_pruning", "prune", "prune_after_publishing"]

log = logging.getLogger("resile.checkpoint")

REMAINS_AGE = 3600.0
"""Seconds. No writer is silent for so long: within its patience it gives up or goes on."""


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
    manifests: list[str] = []
    files: list[str] = []
    remains: list[str] = []
    size = 0
    for checkpoint, item, path in _our_files(shelf, there):
        if not _belongs(checkpoint, item):
            if item.modified >= now() - remains_age:
                continue
            remains.append(path)
        elif checkpoint not in doomed:
            continue
        else:
            (manifests if item.name == MANIFEST else files).append(path)
        size += item.size
    steps = tuple(checkpoint.step for checkpoint in doomed)
    return Pruning(steps, tuple(manifests), tuple(files), tuple(remains), size)


def _doomed(shelf: Shelf, there: list[Checkpoint], keep: int, depth: Depth) -> list[Checkpoint]:
    """The checkpoints that go, given all, newest step first."""
    latest = sorted(there, key=lambda one: one.manifest.created, reverse=True)[:keep]
    kept = {one.step for one in (*there[:keep], *latest)}
    # Damage is not told of here: whoever restores or verifies says it.
    whole = next((one.step for one in there if not shelf.damages(one, depth)), None)
    return [one for one in there if one.step not in kept and one.step != whole]


def _our_files(
    shelf: Shelf, there: list[Checkpoint]
) -> Iterator[tuple[Checkpoint | None, Item, str]]:
    """Every file of ours that may be looked at, with the checkpoint of its folder if it has one."""
    if not there:
        return
    by_step = {checkpoint.step: checkpoint for checkpoint in there}
    for step in shelf.steps():
        if step > there[0].step or (step not in by_step and not _never_published(shelf, step)):
            continue
        try:
            items = shelf.storage.list(step_folder(step))
        except NotThere:
            continue
        for item in items:
            if is_ours(item.name) and not item.is_folder:
                yield by_step.get(step), item, f"{step_folder(step)}/{item.name}"


def _never_published(shelf: Shelf, step: int) -> bool:
    try:
        shelf.at(step)
    except NoCheckpoint:
        return True
    except (PartDamaged, StorageRefused):
        pass
    return False


def _belongs(checkpoint: Checkpoint | None, item: Item) -> bool:
    """Whether a file is the manifest, a part or an entry of this checkpoint."""
    if checkpoint is None:
        return False
    names = {part.name for part in checkpoint.manifest.parts}
    return item.name == MANIFEST or any(
        item.name.removesuffix(ending) in names for ending in (PART_ENDING, ENTRY_ENDING)
    )
