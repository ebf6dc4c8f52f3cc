"""Finding the newest state there is and putting it back, all workers of a round together.

Every node says what its memory holds, rank 0 chooses (``choosing``), everybody reads what it needs:
from its own node's memory, by way of it from another node's (``held_parts``), or from storage. If
anybody finds a part damaged or gone, all turn to the next best step together.
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

from resile.checkpoint.errors import (
    CheckpointError,
    NoCheckpoint,
    NotThere,
    PartDamaged,
    StorageTrouble,
)
from resile.checkpoint.fence import Fence
from resile.checkpoint.keeping.errors import KeeperError
from resile.checkpoint.keeping.memory import SnapshotMemory
from resile.checkpoint.patience import Patience, insist
from resile.checkpoint.readable_part import ReadablePart
from resile.checkpoint.shelf import Checkpoint, Depth, Shelf
from resile.checkpoint.storage import Storage
from resile.checkpoint.stored_part import StoredPart
from resile.groupname import MAIN_GROUP
from resile.train.checkpoint.agreement import Agreement
from resile.train.checkpoint.choosing import (
    Choice,
    Key,
    NodeInventory,
    Source,
    StoredStep,
    choose,
)
from resile.train.checkpoint.errors import StateMismatch
from resile.train.checkpoint.held_parts import open_held
from resile.train.checkpoint.restore import restore

__all__ = ["Resumed", "Verdict", "resume"]

log = logging.getLogger("resile.train")

LET_GO_AFTER = 2.0
"""Seconds: all workers have restored by then, and train."""


@dataclass(frozen=True)
class Resumed:
    """Where training goes on from."""

    source: Source
    step: int = 0
    seconds: float = 0.0
    problems: tuple[str, ...] = ()
    """What was tried before and could not be used."""

    addresses: tuple[str, ...] = ()
    """The keepers' addresses, by group rank."""

    owner: str = ""
    """The job whose checkpoints are on storage, if there are any."""


class Verdict(msgspec.Struct, frozen=True):
    """How a worker fared with a choice."""

    problem: str = ""
    final: bool = False
    """Trying another step cannot help: the state is another one, or not trusted."""


def resume(
    state: dict[str, Any],
    *,
    agreement: Agreement,
    memory: SnapshotMemory | None,
    storage: Storage | None,
    group: str = MAIN_GROUP,
    strict: bool,
    trust: bool,
) -> Resumed:
    """Put the newest consistent state of a group back into ``state``; the same step on all workers.

    ``memory`` is that of the same group, or None.
    """
    started = time.monotonic()
    nodes = _exchange_inventories(agreement, memory)
    shelf = None if storage is None else Shelf(storage, group)
    problems: list[str] = []
    refused: set[Key] = set()
    while True:
        turn = len(refused)
        choice = agreement.decide(
            f"choice/{turn}",
            lambda: _choose(nodes, shelf, frozenset(refused), agreement.place.run),
            Choice,
        )
        problems += [one for one in choice.unusable if one not in problems]
        if choice.source is Source.NOWHERE:
            _refuse_to_forget(problems)
            return Resumed(choice.source, addresses=choice.addresses, owner=choice.owner)
        reading = _Reading(agreement, memory, shelf)
        mine = reading.attempt(state, choice, strict=strict, trust=trust)
        verdict = _common_verdict(agreement, turn, mine)
        if not verdict.problem:
            seconds = time.monotonic() - started
            return Resumed(
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
    """Starting from scratch although there is something would throw it away in the end."""
    if problems:
        raise NoCheckpoint(
            "there are saved steps, but none can be used; mend or remove them to start anew: "
            + "; ".join(problems)
        )


def _exchange_inventories(
    agreement: Agreement, memory: SnapshotMemory | None
) -> list[NodeInventory]:
    """All nodes', on rank 0; elsewhere none are needed."""
    place = agreement.place
    mine = NodeInventory()
    if place.leads_node and memory is not None:
        with contextlib.suppress(KeeperError):
            mine = NodeInventory(address=memory.address, parts=memory.inventory())
    if place.rank != 0:
        if place.leads_node:
            agreement.say(f"inventory/{place.group_rank}", mine)
        return []
    others = range(1, place.nodes)
    return [mine, *(agreement.hear(f"inventory/{node}", NodeInventory) for node in others)]


def _choose(
    nodes: list[NodeInventory], shelf: Shelf | None, refused: frozenset[Key], run: str
) -> Choice:
    """What rank 0 decides. A step counts as stored if its manifest and its sizes are right, and if
    no later round went on from before it."""
    if shelf is None:
        return choose(nodes, stored=(), refused=refused)
    found = insist(lambda: _look(shelf, refused), Patience(), tell=log.warning)
    choice = choose(
        nodes,
        stored=found.newest,
        refused=refused,
        superseded=lambda round, step: bool(found.fence.superseded_round(run, round, step)),
    )
    # What is in memory is newer than all there is on storage, whatever its state.
    unusable = () if choice.source is Source.MEMORY else tuple(found.unusable)
    return msgspec.structs.replace(choice, owner=found.owner, unusable=unusable)


@dataclass(frozen=True)
class _Found:
    """What there is on storage."""

    newest: list[StoredStep] = field(default_factory=list)
    """The newest checkpoint that can be used, if there is one."""

    unusable: list[str] = field(default_factory=list)
    """Why newer ones are not used."""

    fence: Fence = field(default_factory=Fence)
    owner: str = ""


def _look(shelf: Shelf, refused: frozenset[Key]) -> _Found:
    unusable: list[str] = []
    try:
        fence = shelf.fence()
        claimed = fence.latest
        owner = claimed.job if claimed is not None else ""
        for checkpoint in shelf.checkpoints(tell=unusable.append):
            owner = owner or checkpoint.manifest.job
            one = StoredStep(checkpoint.step, checkpoint.digest)
            if (Source.STORAGE, one.step, one.digest) in refused:
                continue
            why = fence.superseded(checkpoint.attempt, checkpoint.step)
            why = why or "; ".join(shelf.damages(checkpoint, Depth.SIZES))
            if not why:
                return _Found([one], unusable, fence, owner)
            unusable.append(f"step {one.step} in storage: {why}")
    except NotThere:
        return _Found()
    return _Found([], unusable, fence, owner)


def _common_verdict(agreement: Agreement, turn: int, mine: Verdict) -> Verdict:
    """Good if it is for all; else the first problem, final if anybody's is."""
    verdicts = agreement.gather(f"verdict/{turn}", mine, Verdict)

    def judge() -> Verdict:
        bad = [
            msgspec.structs.replace(one, problem=f"rank {rank}: {one.problem}")
            for rank, one in enumerate(verdicts or ())
            if one.problem
        ]
        return next((one for one in bad if one.final), bad[0] if bad else Verdict())

    return agreement.decide(f"verdicts/{turn}", judge, Verdict)


def _let_go_of(parts: list[ReadablePart]) -> None:
    """Later, beside training: to take small pages out of a process takes as long as copying."""
    later = threading.Timer(LET_GO_AFTER, parts.clear)
    later.daemon = True
    later.start()


class _Reading:
    """One worker's attempt at one choice."""

    def __init__(
        self, agreement: Agreement, memory: SnapshotMemory | None, shelf: Shelf | None
    ) -> None:
        self._place = agreement.place
        self._memory = memory
        self._shelf = shelf
        self.error: CheckpointError | None = None

    def attempt(
        self, state: dict[str, Any], choice: Choice, *, strict: bool, trust: bool
    ) -> Verdict:
        """Put it back; says what went wrong rather than raising, so that nobody is left waiting."""
        parts: list[ReadablePart] = []
        try:
            with ExitStack() as opened:
                parts += self._parts(choice, opened)
                restore(state, parts, rank=self._place.rank, strict=strict, trust=trust)
        except (PartDamaged, KeeperError, NoCheckpoint, StorageTrouble) as error:
            return Verdict(str(error))
        except CheckpointError as error:
            self.error = error
            return Verdict(str(error), final=True)
        finally:
            _let_go_of(parts)
        return Verdict()

    def _parts(self, choice: Choice, opened: ExitStack) -> list[ReadablePart]:
        if choice.source is Source.MEMORY:
            if self._memory is None:
                raise NoCheckpoint("this node has no snapshots")
            return open_held(self._memory, choice, node=self._place.group_rank, opened=opened)
        assert self._shelf is not None
        found = self._shelf.at(choice.step)
        if found.digest != choice.digest:
            raise NoCheckpoint("it was written again while it was restored")
        storage, checkpoint = self._shelf.storage, self._checked(found)
        return [
            opened.enter_context(StoredPart(storage, checkpoint, entry))
            for entry in checkpoint.manifest.parts
        ]

    def _checked(self, checkpoint: Checkpoint) -> Checkpoint:
        """Its checksums; every worker reads its share of the parts."""
        assert self._shelf is not None
        manifest = checkpoint.manifest
        share = manifest.parts[self._place.rank :: self._place.world]
        mine = replace(checkpoint, manifest=msgspec.structs.replace(manifest, parts=share))
        if damages := self._shelf.damages(mine):
            raise NoCheckpoint("; ".join(damages))
        return checkpoint
