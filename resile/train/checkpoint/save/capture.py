"""Copy a live state into the bytes of parts: the only work that training waits for.

``take`` decides what goes where, without touching a tensor's elements: what is the same on all
ranks is divided among the node's workers, slices of DTensors and random states go into this rank's
own part. ``Portion.write`` copies straight into the buffer. No communication is needed: all ranks
compute the same split from the same names, sizes and placements. Where the workers of a node
differ in these, a tensor has no copy, and the restore reports it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import torch

from resile.checkpoint.part import PartHeader, PartKind, PartLayout, Slice, lay_out
from resile.group_name import MAIN_GROUP
from resile.train.checkpoint.state.encoding import STATELESS, encode
from resile.train.checkpoint.state.rng import random_states
from resile.train.checkpoint.state.script_classes import ScriptClasses
from resile.train.checkpoint.state.tensors import TYPES, Locator, is_dtensor, is_storable
from resile.train.checkpoint.state.tree import Names, StateTree, TensorNames, has_state
from resile.train.checkpoint.state.values import Path

__all__ = [
    "Capture",
    "Captured",
    "Portion",
    "SMALL",
    "share_out",
]


SMALL = 1 << 20
"""Tensors below this are not balanced: the first worker takes them."""


def share_out(sizes: Mapping[str, int], workers: int) -> dict[str, int]:
    """Return for each name the local rank that copies it: the largest first, each to the worker
    with the least so far."""
    owners = {name: 0 for name, size in sizes.items() if size < SMALL}
    loads = [(0, local_rank) for local_rank in range(workers)]
    loads[0] = (sum(sizes[name] for name in owners), 0)
    heapq.heapify(loads)
    large = (name for name in sizes if name not in owners)
    for name in sorted(large, key=lambda name: (-sizes[name], name)):
        load, local_rank = heapq.heappop(loads)
        owners[name] = local_rank
        heapq.heappush(loads, (load + sizes[name], local_rank))
    return owners


ROOM = 4096
"""Space for headers is reserved in multiples of this, and a quarter more than needed, so that a
part keeps its size while counters and learning rates change their length."""


@dataclass(frozen=True, eq=False)
class Portion:
    """A part before it is written: its header, its layout, and the live tensors."""

    header: PartHeader
    tensors: Mapping[str, Any]
    layout: PartLayout

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.layout.size

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def write(self, buffer: memoryview) -> PartLayout:
        """Copy all of it to the beginning of ``buffer``, the header last."""
        for name, place in self.layout.places.items():
            count = place.end - place.begin
            if count:
                dtype = TYPES[place.slice.dtype]
                room = torch.frombuffer(
                    buffer, dtype=dtype, count=count // dtype.itemsize, offset=place.begin
                )
                room.view(place.slice.shape).copy_(self.tensors[name])
        buffer[: len(self.layout.header)] = self.layout.header
        return self.layout


@dataclass(frozen=True, eq=False)
class Captured:
    """A worker's share of one step."""

    replica: Portion
    rank: Portion


class Capture:
    """Captures the state of one worker, repeatedly; caches what stays the same."""

    def __init__(
        self,
        *,
        rank: int = 0,
        world: int = 1,
        local_rank: int = 0,
        local_world: int = 1,
        group: str = MAIN_GROUP,
        trust: bool = False,
        classes: ScriptClasses | None = None,
    ) -> None:
        """``trust``: also save what can only be restored by unpickling. ``classes``: the script's
        own classes whose values are saved."""
        self._rank = rank
        self._world = world
        self._local_rank = local_rank
        self._local_world = local_world
        self._group = group or msgspec.UNSET
        self._trust = trust
        self._classes = classes or ScriptClasses()
        self._names = Names()
        self._locator = Locator(world)
        self._sizes: dict[str, int] = {}
        self._owners: dict[str, int] = {}
        self._rooms: dict[PartKind, int] = {}

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def take(self, state: Mapping[str, Any], *, step: int) -> Captured:
        """Return this worker's share of ``state``. Tensors are live: write before they change."""
        tree = StateTree(state, self._names, classes=self._classes, trust=self._trust)
        common, own = self._located(tree.tensors)
        mine = self._share(common)
        private = _Private(taken=tree.tensors, classes=self._classes, trust=self._trust)
        values = private.encode(tree.per_rank)
        own.update(self._located(private.tensors)[0])
        tensors = {**tree.tensors, **private.tensors}
        return Captured(
            replica=self._portion(
                PartHeader(
                    step=step,
                    kind=PartKind.REPLICA,
                    index=self._local_rank,
                    count=self._local_world,
                    world=self._world,
                    slices=mine,
                    values=tree.values if self._local_rank == 0 else None,
                    written_group=self._group,
                ),
                tensors,
            ),
            rank=self._portion(
                PartHeader(
                    step=step,
                    kind=PartKind.RANK,
                    index=self._rank,
                    count=self._world,
                    world=self._world,
                    slices=own,
                    values=values,
                    written_group=self._group,
                ),
                tensors,
            ),
        )

    def _located(self, tensors: Mapping[str, Any]) -> tuple[dict[str, Slice], dict[str, Slice]]:
        """The slices that every rank has, and those that only this one has."""
        common: dict[str, Slice] = {}
        own: dict[str, Slice] = {}
        for name, tensor in tensors.items():
            located = self._locator.locate(tensor, name)
            if located is not None:
                (common if located.everywhere else own)[name] = located.slice
        return common, own

    def _share(self, common: Mapping[str, Slice]) -> dict[str, Slice]:
        """The share of the common slices that this worker copies."""
        sizes = {name: one.size for name, one in common.items()}
        if sizes != self._sizes:
            self._sizes, self._owners = sizes, share_out(sizes, self._local_world)
        return {name: one for name, one in common.items() if self._owners[name] == self._local_rank}

    def _portion(self, header: PartHeader, tensors: Mapping[str, Any]) -> Portion:
        layout = lay_out(header, room=self._rooms.get(header.kind, 0))
        if len(layout.header) > self._rooms.get(header.kind, 0):
            needed = len(layout.header) * 5 // 4
            self._rooms[header.kind] = needed + -needed % ROOM
            layout = lay_out(header, room=self._rooms[header.kind])
        local = {name: _local(tensors[name]) for name in header.slices}
        return Portion(header, local, layout)


class _Private:
    """Encodes what belongs to this rank alone: random states, and states of objects that are per
    rank."""

    def __init__(self, *, taken: Iterable[str], classes: ScriptClasses, trust: bool) -> None:
        self.trust = trust
        self.classes = classes
        self._names = TensorNames(taken)

    @property
    def tensors(self) -> dict[str, Any]:
        return self._names.tensors

    def encode(self, objects: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a rank part."""
        states = {path: one.state_dict() for path, one in objects.items()}
        return {
            "random": encode(random_states(), collector=self, path=("rank", "random")),
            "objects": {
                path: encode(state, collector=self, path=("rank", path))
                for path, state in states.items()
            },
        }

    def tensor(self, tensor: Any, path: Path) -> str | None:
        """Called while encoding."""
        local = _local(tensor)
        return self._names.name(local, path) if is_storable(local) else None

    def object(self, value: Any, path: Path) -> Any:
        """Called while encoding."""
        return (
            encode(value.state_dict(), collector=self, path=path) if has_state(value) else STATELESS
        )


def _local(tensor: Any) -> Any:
    return tensor.to_local() if is_dtensor(tensor) else tensor
