"""The two slots of a part in the process that fills them: mapped, and used in turn.

``begin`` returns the memory of the slot that is needed least and marks it as being written;
``complete`` marks it as complete. A kill in between leaves the other slot unchanged, and the kernel
releases the lock. A slot that is being written to storage, or copied to another node, is never
overwritten: ``begin`` waits.
"""

from __future__ import annotations

import fcntl
import math
import os
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from resile.snapshots import slots
from resile.snapshots.memory import Mapping
from resile.snapshots.slots import BEGIN, Label, SlotRecord

__all__ = ["SlotBuffer", "SlotPair"]

_PAUSE = 0.002
"""Seconds between two tries to lock a slot: short compared to any write to storage."""


_SAY_EVERY = 0.25
"""Seconds between two calls of ``waiting``: another process may hold the slot by then."""


@dataclass(frozen=True)
class SlotBuffer:
    """Memory to fill."""

    buffer: memoryview
    waited: float
    """Seconds spent waiting for the slot while it was written to storage or copied."""


@dataclass(eq=False)
class SlotPair:
    """Fills slots. Takes ownership of the descriptors, which must not be shared with another
    pair."""

    descriptors: Sequence[int]
    _mappings: list[Mapping] = field(init=False)
    _open: tuple[int, SlotRecord] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._mappings = [Mapping(one, writable=True) for one in self.descriptors]
        _pairs.add(self)

    @property
    def capacity(self) -> int:
        """Maximum size of a part; -1 in a forked child, which has to reserve its own slots."""
        if not self.descriptors:
            return -1
        return min(mapping.size for mapping in self._mappings) - BEGIN

    def populate(self) -> None:
        """Populate the pages, so that the first copy costs no more than later ones."""
        for mapping in list(self._mappings):
            mapping.populate()

    def begin(
        self,
        label: Label,
        size: int,
        *,
        waiting: Callable[[], None] = lambda: None,
    ) -> SlotBuffer:
        """Memory for a part of ``size`` bytes, in the slot that is needed least.

        Waits while the slot is locked, and calls ``waiting`` at the start of a wait and repeatedly
        during it. An earlier ``begin`` that was not completed is abandoned.
        """
        self.abandon()
        if size > self.capacity:
            raise ValueError(f"{size} bytes do not fit into a slot of {self.capacity}")
        number = slots.choose([slots.read_control(one) for one in self.descriptors], label.step)
        waited = _take(self.descriptors[number], waiting)
        control = slots.begun(label, length=size)
        slots.write_control(self.descriptors[number], control)
        self._open = number, control
        return SlotBuffer(self._mappings[number].view[BEGIN : BEGIN + size], waited)

    def complete(self) -> Label:
        """Mark the part as complete."""
        assert self._open is not None, "nothing was begun"
        number, control = self._open
        slots.write_control(self.descriptors[number], slots.completed(control))
        self._open = None
        fcntl.flock(self.descriptors[number], fcntl.LOCK_UN)
        assert control.label is not None
        return control.label

    def abandon(self) -> None:
        """Abandon an incomplete part; its slot stays without a complete one."""
        if self._open is not None:
            fcntl.flock(self.descriptors[self._open[0]], fcntl.LOCK_UN)
            self._open = None

    def close(self) -> None:
        """Close the descriptors. Mappings are released with their last view."""
        self.abandon()
        _pairs.discard(self)
        self._mappings.clear()
        self.let_go()

    def let_go(self) -> None:
        """Close the descriptors without unlocking; an incomplete part can no longer be
        completed."""
        self._open = None
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()


def _take(descriptor: int, waiting: Callable[[], None]) -> float:
    """Lock a slot; returns the seconds that it took."""
    started = time.monotonic()
    said_at = -math.inf
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            now = time.monotonic()
            if now - said_at >= _SAY_EVERY:
                said_at = now
                waiting()
            time.sleep(_PAUSE)
        else:
            return time.monotonic() - started


_pairs: weakref.WeakSet[SlotPair] = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A forked child must not keep its parent's locks when the parent is killed."""
    for pair in list(_pairs):
        pair.let_go()


os.register_at_fork(after_in_child=_let_go_in_child)
