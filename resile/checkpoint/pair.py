"""The two slots of one part as the process that fills them has them: mapped, and used in turn.

``begin`` gives the memory of the slot that is missed least and marks it as being written;
``complete`` marks it whole. A kill anywhere between leaves the other slot as it was, and the kernel
takes back the lock. A slot that is being written to storage, or copied to another node, is never
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

from resile.checkpoint import slots
from resile.checkpoint.mapping import Mapping
from resile.checkpoint.slots import BEGIN, Control, Label

__all__ = ["Begun", "SlotPair"]

_PAUSE = 0.002
"""Between two looks whether a held slot is free: short beside any write to storage."""


_SAY_EVERY = 0.25
"""Seconds after which it is said again that somebody waits: another may hold the slot by then."""


@dataclass(frozen=True)
class Begun:
    """Memory to fill."""

    buffer: memoryview
    waited: float
    """Seconds that the slot was still held by who writes it to storage or copies it."""


@dataclass(eq=False)
class SlotPair:
    """Fills slots. The descriptors become its own, and must not be shared with another pair."""

    descriptors: Sequence[int]
    _mappings: list[Mapping] = field(init=False)
    _open: tuple[int, Control] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._mappings = [Mapping(one, writable=True) for one in self.descriptors]
        _pairs.add(self)

    @property
    def capacity(self) -> int:
        """Bytes that a part may have; none in a forked child, which has to get its own."""
        if not self.descriptors:
            return -1
        return min(mapping.size for mapping in self._mappings) - BEGIN

    def populate(self) -> None:
        """Make the pages ready, so that the first copy costs what later ones do."""
        for mapping in list(self._mappings):
            mapping.populate()

    def begin(
        self,
        label: Label,
        size: int,
        *,
        waiting: Callable[[], None] = lambda: None,
    ) -> Begun:
        """Memory for a part of ``size`` bytes, in the slot that is missed least.

        Waits while the slot is held. ``waiting`` is called if it has to wait, and now and then
        while it does. What an earlier ``begin`` left incomplete is given up.
        """
        self.abandon()
        if size > self.capacity:
            raise ValueError(f"{size} bytes do not fit into a slot of {self.capacity}")
        number = slots.choose([slots.read_control(one) for one in self.descriptors], label.step)
        waited = _take(self.descriptors[number], waiting)
        control = slots.begun(label, length=size)
        slots.write_control(self.descriptors[number], control)
        self._open = number, control
        return Begun(self._mappings[number].view[BEGIN : BEGIN + size], waited)

    def complete(self) -> Label:
        """The part is all there."""
        assert self._open is not None, "nothing was begun"
        number, control = self._open
        slots.write_control(self.descriptors[number], slots.completed(control))
        self._open = None
        fcntl.flock(self.descriptors[number], fcntl.LOCK_UN)
        assert control.label is not None
        return control.label

    def abandon(self) -> None:
        """Give up what was begun; the slot stays without a whole part."""
        if self._open is not None:
            fcntl.flock(self.descriptors[self._open[0]], fcntl.LOCK_UN)
            self._open = None

    def close(self) -> None:
        """Give the descriptors back. Mappings go when the last view of them does."""
        self.abandon()
        _pairs.discard(self)
        self._mappings.clear()
        self.let_go()

    def let_go(self) -> None:
        """Close the descriptors; what was begun is no longer ours to complete."""
        self._open = None
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()


def _take(descriptor: int, waiting: Callable[[], None]) -> float:
    """Lock a slot; the seconds that it took."""
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
