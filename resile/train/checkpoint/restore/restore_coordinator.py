"""Restore of the newest available state, coordinated between all workers of a round.

Every node reports what its memory holds, rank 0 chooses (``choosing``), every worker reads what it
needs: from its own node's memory, through it from another node's (``held_parts``), or from storage.
If a worker finds a part damaged or gone, all workers try the next best step together.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from resile.checkpoint.catalog import Checkpoint, CheckpointCatalog, Depth, StoredPart
from resile.checkpoint.errors import (
    CheckpointError,
    NoCheckpoint,
    NotOnStorage,
    PartDamaged,
    StorageError,
)
from resile.checkpoint.fence import StorageFence
from resile.checkpoint.part import ReadablePart
from resile.checkpoint.storage.base import Storage
from resile.checkpoint.storage.retry import RetryPolicy, retry
from resile.group_name import MAIN_GROUP
from resile.snapshots.client import SnapshotClient
from resile.snapshots.errors import SnapshotError
from resile.train.checkpoint.errors import StateMismatch
from resile.train.checkpoint.restore.apply_state import restore
from resile.train.checkpoint.restore.memory_parts import open_memory_parts
from resile.train.checkpoint.restore.select_source import (
    Choice,
    Key,
    NodeInventory,
    RestoreSource,
    StoredStep,
    choose,
)
from resile.train.checkpoint.round_channel import RoundChannel

__all__ = ["RestoreResult", "RestoreVerdict", "resume"]

log = logging.getLogger("resile.train")

LET_GO_AFTER = 2.0
"""Seconds: all workers have restored by then and train."""


@dataclass(frozen=True)
class RestoreResult:
    """The step that training resumes from, and its source."""

    source: RestoreSource
    step: int = 0
    seconds: float = 0.0
    problems: tuple[str, ...] = ()
    """The sources that were tried before and could not be used."""

    addresses: tuple[str, ...] = ()
    """The snapshot servers' addresses, by group rank."""

    owner: str = ""
    """The job whose checkpoints are on storage, if there are any."""


class RestoreVerdict(msgspec.Struct, frozen=True):
    """A worker's result with a choice."""

    problem: str = ""
    final: bool = False
    """Trying another step cannot help: the state does not match, or needs ``trust``."""


def resume(
    state: dict[str, Any],
    *,
    channel: RoundChannel,
    memory: SnapshotClient | None,
    storage: Storage | None,
    group: str = MAIN_GROUP,
    strict: bool,
    trust: bool,
) -> RestoreResult:
    """Load the newest consistent state of a group into ``state``; the same step on all workers.

    ``memory`` holds the snapshots of the same group, or is None.
    """
    started = time.monotonic()
    nodes = _exchange_inventories(channel, memory)
    catalog = None if storage is None else CheckpointCatalog(storage, group)
    problems: list[str] = []
    refused: set[Key] = set()
    while True:
        turn = len(refused)
        choice = channel.decide(
            f"choice/{turn}",
            lambda: _choose(nodes, catalog, frozenset(refused), channel.place.run),
            Choice,
        )
        problems += [one for one in choice.unusable if one not in problems]
        if choice.source is RestoreSource.NOWHERE:
            _refuse_to_forget(problems)
            return RestoreResult(choice.source, addresses=choice.addresses, owner=choice.owner)
        reading = _Reading(channel, memory, catalog)
        mine = reading.attempt(state, choice, strict=strict, trust=trust)
        verdict = _common_verdict(channel, turn, mine)
        if not verdict.problem:
            seconds = time.monotonic() - started
            return RestoreResult(
                choice.source,
                choice.step,
                seconds,
                tuple(problems),
                choice.addresses,
                choice.owner,
            )
        if verdict.final:
            raise reading.error or StateMismatch(verdict.problem)
        problems.append(f"step {choice.step} in {choice.source.value}: {verdict.problem}")
        refused.add(choice.key)


def _refuse_to_forget(problems: list[str]) -> None:
    """Refuse to start from scratch although steps are saved, which would in the end delete them."""
    if problems:
        raise NoCheckpoint(
            "there are saved steps, but none can be used; repair or remove them to start over: "
            + "; ".join(problems)
        )


def _exchange_inventories(
    channel: RoundChannel, memory: SnapshotClient | None
) -> list[NodeInventory]:
    """Collect all nodes' inventories on rank 0; elsewhere the result is empty."""
    place = channel.place
    mine = NodeInventory()
    if place.leads_node and memory is not None:
        with contextlib.suppress(SnapshotError):
            mine = NodeInventory(address=memory.address, parts=memory.inventory())
    if place.rank != 0:
        if place.leads_node:
            channel.put(f"inventory/{place.group_rank}", mine)
        return []
    others = range(1, place.nodes)
    return [mine, *(channel.get(f"inventory/{node}", NodeInventory) for node in others)]


def _choose(
    nodes: list[NodeInventory], catalog: CheckpointCatalog | None, refused: frozenset[Key], run: str
) -> Choice:
    """Choose a step on rank 0. A stored step is usable if its manifest and its sizes are right, and
    if no later round resumed from before it."""
    if catalog is None:
        return choose(nodes, stored=(), refused=refused)
    found = retry(lambda: _look(catalog, refused), RetryPolicy(), tell=log.warning)
    choice = choose(
        nodes,
        stored=found.newest,
        refused=refused,
        superseded=lambda round, step: bool(found.fence.superseded_round(run, round, step)),
    )
    # The step in memory is newer than any on storage, whatever their state.
    unusable = () if choice.source is RestoreSource.MEMORY else tuple(found.unusable)
    return msgspec.structs.replace(choice, owner=found.owner, unusable=unusable)


@dataclass(frozen=True)
class _Found:
    """The checkpoints found on storage."""

    newest: list[StoredStep] = field(default_factory=list)
    """The newest usable checkpoint, if there is one."""

    unusable: list[str] = field(default_factory=list)
    """Why newer checkpoints are not used."""

    fence: StorageFence = field(default_factory=StorageFence)
    owner: str = ""


def _look(catalog: CheckpointCatalog, refused: frozenset[Key]) -> _Found:
    unusable: list[str] = []
    try:
        fence = catalog.fence()
        claimed = fence.latest
        owner = claimed.job if claimed is not None else ""
        for checkpoint in catalog.checkpoints(tell=unusable.append):
            owner = owner or checkpoint.manifest.job
            one = StoredStep(checkpoint.step, checkpoint.digest)
            if (RestoreSource.STORAGE, one.step, one.digest) in refused:
                continue
            why = fence.superseded(checkpoint.attempt, checkpoint.step)
            why = why or "; ".join(catalog.damages(checkpoint, Depth.SIZES))
            if not why:
                return _Found([one], unusable, fence, owner)
            unusable.append(f"step {one.step} in storage: {why}")
    except NotOnStorage:
        return _Found()
    return _Found([], unusable, fence, owner)


def _common_verdict(channel: RoundChannel, turn: int, mine: RestoreVerdict) -> RestoreVerdict:
    """Success if all workers succeeded; else the first problem, preferring a final one."""
    verdicts = channel.gather(f"verdict/{turn}", mine, RestoreVerdict)

    def judge() -> RestoreVerdict:
        bad = [
            msgspec.structs.replace(one, problem=f"rank {rank}: {one.problem}")
            for rank, one in enumerate(verdicts or ())
            if one.problem
        ]
        return next((one for one in bad if one.final), bad[0] if bad else RestoreVerdict())

    return channel.decide(f"verdicts/{turn}", judge, RestoreVerdict)


def _let_go_of(parts: list[ReadablePart]) -> None:
    """Unmap later, during training: unmapping small pages takes as long as copying them."""
    later = threading.Timer(LET_GO_AFTER, parts.clear)
    later.daemon = True
    later.start()


class _Reading:
    """A worker's attempt at one choice."""

    def __init__(
        self,
        channel: RoundChannel,
        memory: SnapshotClient | None,
        catalog: CheckpointCatalog | None,
    ) -> None:
        self._place = channel.place
        self._memory = memory
        self._shelf = catalog
        self.error: CheckpointError | None = None

    def attempt(
        self, state: dict[str, Any], choice: Choice, *, strict: bool, trust: bool
    ) -> RestoreVerdict:
        """Load the step; returns errors instead of raising, so that no worker is left waiting."""
        parts: list[ReadablePart] = []
        try:
            with ExitStack() as opened:
                parts += self._parts(choice, opened)
                restore(state, parts, rank=self._place.rank, strict=strict, trust=trust)
        except (PartDamaged, SnapshotError, NoCheckpoint, StorageError) as error:
            return RestoreVerdict(str(error))
        except CheckpointError as error:
            self.error = error
            return RestoreVerdict(str(error), final=True)
        finally:
            _let_go_of(parts)
        return RestoreVerdict()

    def _parts(self, choice: Choice, opened: ExitStack) -> list[ReadablePart]:
        if choice.source is RestoreSource.MEMORY:
            if self._memory is None:
                raise NoCheckpoint("this node has no snapshot memory")
            return open_memory_parts(
                self._memory, choice, node=self._place.group_rank, opened=opened
            )
        assert self._shelf is not None
        found = self._shelf.at(choice.step)
        if found.digest != choice.digest:
            raise NoCheckpoint("it was rewritten during the restore")
        storage, checkpoint = self._shelf.storage, self._checked(found)
        return [
            opened.enter_context(StoredPart(storage, checkpoint, entry))
            for entry in checkpoint.manifest.parts
        ]

    def _checked(self, checkpoint: Checkpoint) -> Checkpoint:
        """Verify its checksums; every worker reads its share of the parts."""
        assert self._shelf is not None
        manifest = checkpoint.manifest
        share = manifest.parts[self._place.rank :: self._place.world]
        mine = replace(checkpoint, manifest=msgspec.structs.replace(manifest, parts=share))
        if damages := self._shelf.damages(mine):
            raise NoCheckpoint("; ".join(damages))
        return checkpoint
