"""The table of slots: a pair for every part that this node holds or held.

A pair belongs to a place (the identity of a part), whether it is filled by a worker of this node or
with a copy from another. So when ranks move between nodes the memory is already allocated, and its
content stays until something newer is complete.

Thread-safe. Allocating takes as long as filling the memory does; everything else is fast.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from resile.checkpoint.errors import NoMemoryForSnapshot
from resile.snapshots import memory, slots
from resile.snapshots.errors import SnapshotRequestRefused
from resile.snapshots.memory_budget import MemoryBudget, check_budget, find_budget
from resile.snapshots.messages import HeldPartInfo
from resile.snapshots.slots import BEGIN, Label, PartPlace, SlotRecord, SlotState

__all__ = ["Filling", "SlotTable", "Reservation", "outdated"]

GRAIN = 256 * 1024
"""Slot sizes are multiples of this, so that a part whose values grow a little still fits."""


@dataclass(frozen=True)
class Reservation:
    """A pair of slots large enough for a part."""

    descriptors: list[int]
    """To be closed by the caller."""

    grown: bool
    """Whether some of the memory is new."""


@dataclass(frozen=True)
class Filling:
    """An exclusively locked slot, to be filled from another node."""

    descriptor: int
    control: SlotRecord

    def complete(self) -> None:
        """All bytes are here: mark the part as complete."""
        slots.write_control(self.descriptor, slots.completed(self.control))
        os.close(self.descriptor)

    def abandon(self) -> None:
        """Release the slot without a complete part."""
        os.close(self.descriptor)


class SlotTable:
    """All slots of a node. ``limit``: maximum bytes of all of them, besides the free memory."""

    def __init__(self, *, limit: int | None = None) -> None:
        self._limit = limit
        self._pairs: dict[PartPlace, tuple[int, int]] = {}
        self._received: set[int] = set()
        self._closed = False
        self._table = threading.Lock()
        """Held briefly: no descriptor is closed that another thread has just looked up."""
        self._allocating = threading.Lock()
        """Taken first, and held while allocating: free memory is not promised twice."""

    def reserve(self, place: PartPlace, size: int) -> Reservation:
        """Reserve both slots for a part of ``size`` bytes; raises :class:`NoMemoryForSnapshot`."""
        with self._allocating:
            pair = self._pair(place)
            grown = self._grow(pair, size)
            return Reservation([memory.reopen(slot) for slot in pair], grown=grown)

    def fill(self, label: Label, size: int) -> Filling | None:
        """A slot for a part from another node, marked as being written; None if it is in use.

        Raises :class:`NoMemoryForSnapshot`. Memory is allocated only for this slot.
        """
        with self._allocating:
            pair = self._pair(label.place)
            controls = [slots.read_control(slot) for slot in pair]
            slot = pair[slots.choose(controls, label.step)]
            own = slots.take(slot)
            if own is None:
                return None
            try:
                self._grow([slot], size, how=memory.extend)
            except NoMemoryForSnapshot:
                os.close(own)
                raise
            control = slots.begun(label, length=size)
            slots.write_control(own, control)
            with self._table:
                present = {
                    slots.read_control(s).generation for p in self._pairs.values() for s in p
                }
                self._received = (self._received & present) | {control.generation}
        return Filling(own, control)

    def inventory(self) -> list[HeldPartInfo]:
        """All complete parts."""
        with self._table:
            return [
                HeldPartInfo(label=label, size=one.length, is_copy=one.generation in self._received)
                for _, one in self._slots()
                if (label := _whole(one)) is not None
            ]

    def hold(self, label: Label) -> tuple[int, int] | None:
        """Lock a part for reading: a descriptor and the part's size; None if it is not here."""
        with self._table:
            for slot, control in self._slots_of(label.place):
                own = slots.hold(slot) if _whole(control) == label else None
                if own is None:
                    continue
                if slots.read_control(own) == control:
                    return own, control.length
                os.close(own)
        return None

    def hold_all(self, labels: Iterable[Label]) -> list[tuple[int, int]]:
        """The same for several parts; raises :class:`SnapshotRequestRefused`, with none locked, if
        one is not here."""
        with ExitStack() as undo:
            holds = []
            for label in labels:
                held = self.hold(label)
                if held is None:
                    raise SnapshotRequestRefused(f"{label.name} is not in this node's memory")
                undo.callback(os.close, held[0])
                holds.append(held)
            undo.pop_all()
        return holds

    def afford(self, size: int) -> None:
        """Raise :class:`NoMemoryForSnapshot` unless ``size`` more bytes fit."""
        with self._allocating:
            check_budget(size, size, room=self._room())

    def discard_after(self, step: int) -> None:
        """Discard complete parts of later steps. A process that still reads one keeps its bytes."""
        with self._table:
            for slot, control in self._slots():
                label = _whole(control)
                own = slots.hold(slot) if label is not None and label.step > step else None
                if own is not None:
                    slots.clear_control(own)
                    os.close(own)

    def forget(self, current: Collection[PartPlace], *, round: int) -> None:
        """Release what newer complete steps make obsolete. ``current``: places of this round.

        Skipped while memory is being allocated: a worker waits for this call, and the next step can
        do it.
        """
        if not self._allocating.acquire(blocking=False):
            return
        try:
            with self._table:
                pairs = {
                    place: [slots.read_control(slot) for slot in pair]
                    for place, pair in self._pairs.items()
                }
                for place in outdated(pairs, current, round=round):
                    self._give_back(place)
        finally:
            self._allocating.release()

    def close(self) -> None:
        """Release all slots; memory that other processes have open stays until they close it."""
        with self._allocating, self._table:
            self._closed = True
            for place in list(self._pairs):
                self._give_back(place)

    def _give_back(self, place: PartPlace) -> None:
        for slot in self._pairs.pop(place):
            os.close(slot)

    def _slots(self) -> list[tuple[int, SlotRecord]]:
        return [found for place in self._pairs for found in self._slots_of(place)]

    def _slots_of(self, place: PartPlace) -> list[tuple[int, SlotRecord]]:
        """The slots of a place, the last filled first: a step may have been saved twice."""
        found = [(slot, slots.read_control(slot)) for slot in self._pairs.get(place, ())]
        return sorted(found, key=lambda one: one[1].generation, reverse=True)

    def _pair(self, place: PartPlace) -> tuple[int, int]:
        if self._closed:
            raise NoMemoryForSnapshot("the job is ending: no more snapshots are taken")
        if place not in self._pairs:
            pair = (memory.create(), memory.create())
            with self._table:
                self._pairs[place] = pair
        return self._pairs[place]

    def _grow(
        self, pair: Sequence[int], size: int, *, how: Callable[[int, int], None] = memory.grow
    ) -> bool:
        """Grow slots for a part of ``size`` bytes; returns whether any was too small."""
        wanted = BEGIN + -(-size // GRAIN) * GRAIN
        growth = sum(max(0, wanted - os.fstat(slot).st_size) for slot in pair)
        if growth:
            check_budget(size, growth, room=self._room())
            for slot in pair:
                how(slot, wanted)
        return growth > 0

    def _room(self) -> MemoryBudget:
        room = find_budget()
        if self._limit is None:
            return room
        used = sum(os.fstat(slot).st_size for pair in self._pairs.values() for slot in pair)
        left = MemoryBudget(max(0, self._limit - used), "limit of all snapshots")
        return min(room, left, key=lambda one: one.free)


def outdated(
    pairs: Mapping[PartPlace, Sequence[SlotRecord]], current: Collection[PartPlace], *, round: int
) -> set[PartPlace]:
    """Places whose parts will not be needed again.

    Parts of another group are never needed here: only the nodes of that group exchange them. They
    arrive when this node listens on a port that a node of that group used before.

    When both slots of every current place are complete and of this round, all workers of the group
    have the older of the two steps: none begins the second before all have finished the first. What
    was taken before this round and before that step is then obsolete.
    """
    steps = []
    for place in current:
        labels = [_whole(control) for control in pairs.get(place, ())]
        whole = [label.step for label in labels if label is not None and label.round == round]
        if len(whole) < 2:
            return set()
        steps.append(min(whole))
    if not steps:
        return set()
    oldest = min(steps)
    groups = {place.group for place in current}
    return {
        place
        for place, controls in pairs.items()
        if place.group not in groups
        or (
            place not in current
            and all(
                one.label is None or (one.label.round < round and one.label.step < oldest)
                for one in controls
            )
        )
    }


def _whole(control: SlotRecord) -> Label | None:
    return control.label if control.state is SlotState.COMPLETE else None
