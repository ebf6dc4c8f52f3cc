"""Choice of the step to resume from, given what all nodes hold and what storage has. Pure.

The newest complete step wins; between memory and storage of the same step, memory. A step is
complete when the parts of all its ranks and the replica parts of one node exist. Nodes may have
different numbers of workers: the replica parts of one split must be complete, those of another do
not count. Parts of one step belong together only if they were captured in the same round: a step
that was lost and trained again has different bytes, even where most of it is the same.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Protocol, TypeAlias

import msgspec

from resile.checkpoint.part import PartKind, part_name
from resile.snapshots.messages import HeldPartInfo
from resile.snapshots.slots import Label

__all__ = [
    "Choice",
    "Key",
    "NeededPart",
    "NodeInventory",
    "PartLabel",
    "RestoreSource",
    "StoredStep",
    "choose",
    "held_choices",
    "holder_order",
    "is_complete",
    "missing_parts",
    "parts_for_node",
    "replica_count",
]


class PartLabel(Protocol):
    """The fields that identify a part; a :class:`PartHeader` has them, and an inventory entry."""

    @property
    def kind(self) -> PartKind: ...
    @property
    def index(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def world(self) -> int: ...


def is_complete(labels: Iterable[PartLabel]) -> bool:
    """Return whether these parts of one step suffice to restore it."""
    return not missing_parts(labels)


def missing_parts(labels: Iterable[PartLabel]) -> tuple[str, ...]:
    """Return the names of the missing parts of a step; empty when it is complete."""
    held = list(labels)
    if not held:
        return ("every part",)
    world = held[0].world
    ranks = {one.index for one in held if one.kind is PartKind.RANK and one.count == world}
    absent = [
        part_name(PartKind.RANK, index, world) for index in range(world) if index not in ranks
    ]
    count = replica_count(held)
    if count is None:
        return (*absent, "the replica parts of any node")
    copies = _replicas(held)[count]
    return (
        *absent,
        *(
            part_name(PartKind.REPLICA, index, count)
            for index in range(count)
            if index not in copies
        ),
    )


def replica_count(labels: Iterable[PartLabel]) -> int | None:
    """Return the number of replica parts of the split; the most complete one if nodes differ."""
    held = _replicas(labels)
    return min(held, key=lambda count: (count - len(held[count]), count), default=None)


def _replicas(labels: Iterable[PartLabel]) -> dict[int, set[int]]:
    held: dict[int, set[int]] = {}
    for one in labels:
        if one.kind is PartKind.REPLICA:
            held.setdefault(one.count, set()).add(one.index)
    return held


class RestoreSource(str, Enum):
    """The place a step is restored from."""

    MEMORY = "memory"
    STORAGE = "storage"
    NOWHERE = "nowhere"


Key: TypeAlias = tuple[RestoreSource, int, str]

Superseded: TypeAlias = Callable[[int, int], bool]
"""Whether a later round resumed from before this step of this round."""


class NodeInventory(msgspec.Struct, frozen=True, kw_only=True):
    """The parts one node holds, and the address of its snapshot server."""

    address: str = ""
    parts: tuple[HeldPartInfo, ...] = ()


class NeededPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the chosen step and the group ranks of the nodes that hold it."""

    label: Label
    holders: tuple[int, ...]


class StoredStep(msgspec.Struct, frozen=True):
    """A checkpoint on storage."""

    step: int
    digest: str
    """Of its manifest: if it is rewritten meanwhile, it is a different checkpoint."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The step to resume from, the same for all workers."""

    source: RestoreSource
    step: int = 0
    digest: str = ""
    """For storage: the manifest's digest, so that all workers read the same bytes."""

    parts: tuple[NeededPart, ...] = ()
    """For memory: all needed parts with their holders. The replica parts may be listed several
    times, split in different ways; each node uses one split (:func:`parts_for_node`)."""

    addresses: tuple[str, ...] = ()
    """The snapshot servers' addresses, by group rank."""

    owner: str = ""
    """The job whose checkpoints are on storage."""

    unusable: tuple[str, ...] = ()
    """Checkpoints on storage that were skipped, and why."""

    @property
    def key(self) -> Key:
        """Its identity among the choices."""
        return self.source, self.step, self.digest


class _Line(msgspec.Struct, frozen=True):
    """A label in the form that completeness checks."""

    kind: PartKind
    index: int
    count: int
    world: int


def choose(
    nodes: Sequence[NodeInventory],
    *,
    stored: Iterable[StoredStep],
    refused: frozenset[Key],
    superseded: Superseded = lambda *_: False,
) -> Choice:
    """Return the newest complete step that is not in ``refused``, which were tried and failed.
    ``stored``: the checkpoints on storage. ``superseded``: the snapshots in memory that must not
    be used."""
    in_memory = [one for one in held_choices(nodes, superseded) if one.key not in refused]
    on_storage = [
        choice for one in stored if (choice := _from_storage(one, nodes)).key not in refused
    ]
    best = in_memory[0] if in_memory else None
    latest = max(on_storage, key=lambda one: one.step, default=None)
    if best is not None and (latest is None or best.step >= latest.step):
        return best
    if latest is not None:
        return latest
    return Choice(source=RestoreSource.NOWHERE, addresses=_addresses(nodes))


def held_choices(
    nodes: Sequence[NodeInventory], superseded: Superseded = lambda *_: False
) -> list[Choice]:
    """Return all steps that are complete in the nodes' memories together, the newest first."""
    moments: dict[tuple[int, int], dict[Label, list[int]]] = defaultdict(lambda: defaultdict(list))
    for group_rank, node in enumerate(nodes):
        for held in node.parts:
            moments[held.label.step, held.label.round][held.label].append(group_rank)
    return [
        Choice(
            source=RestoreSource.MEMORY,
            step=step,
            parts=_needed(moments[step, round_]),
            addresses=_addresses(nodes),
        )
        for step, round_ in sorted(moments, reverse=True)
        if not superseded(round_, step)
        and is_complete([_line(label) for label in moments[step, round_]])
    ]


def parts_for_node(node: int, choice: Choice) -> tuple[NeededPart, ...]:
    """Return the parts that the workers of a node (a group rank) open: all rank parts, and the
    replica parts of the split of which the node holds the most itself."""
    lacking: Counter[int] = Counter()
    for one in choice.parts:
        if one.label.place.kind is PartKind.REPLICA:
            lacking[one.label.place.count] += node not in one.holders
    split = min(lacking, key=lambda count: (lacking[count], count), default=None)
    return tuple(
        one
        for one in choice.parts
        if one.label.place.kind is PartKind.RANK or one.label.place.count == split
    )


def holder_order(holders: Iterable[int], *, node: int, nodes: int) -> list[int]:
    """Return the order in which a node asks holders: the ranks after its own first, so that not
    all nodes ask the same one."""
    return sorted(set(holders), key=lambda holder: (holder - node) % nodes)


def _from_storage(stored: StoredStep, nodes: Sequence[NodeInventory]) -> Choice:
    return Choice(
        source=RestoreSource.STORAGE,
        step=stored.step,
        digest=stored.digest,
        addresses=_addresses(nodes),
    )


def _addresses(nodes: Sequence[NodeInventory]) -> tuple[str, ...]:
    return tuple(node.address for node in nodes)


def _needed(holders: dict[Label, list[int]]) -> tuple[NeededPart, ...]:
    """The rank parts, and the replica parts of every complete split."""
    splits = Counter(label.place.count for label in holders if label.place.kind is PartKind.REPLICA)
    return tuple(
        NeededPart(label=label, holders=tuple(nodes))
        for label, nodes in sorted(holders.items(), key=lambda item: item[0].place.name)
        if label.place.kind is PartKind.RANK or splits[label.place.count] == label.place.count
    )


def _line(label: Label) -> _Line:
    return _Line(label.place.kind, label.place.index, label.place.count, label.world)
