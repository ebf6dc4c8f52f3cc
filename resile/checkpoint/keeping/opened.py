"""Parts in a node's memory, opened for reading from the descriptors that the server sends."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from resile.checkpoint.keeping.errors import KeeperRefused
from resile.checkpoint.mapping import map_memory
from resile.checkpoint.slots import BEGIN, Label

__all__ = ["ArrivingPart", "HeldPart", "opened_parts", "received"]


class HeldPart:
    """A part in memory, opened for reading. It cannot be overwritten until it is closed."""

    def __init__(self, label: Label, descriptor: int, *, size: int) -> None:
        self.label = label
        self.size = size
        self._descriptor = descriptor
        self.buffer = map_memory(descriptor, writable=False)[BEGIN : BEGIN + size]
        """Valid as long as it is referenced; not overwritten until this part is closed."""

    def need(self, end: int) -> None:
        """Wait for the bytes up to ``end``: all of them are here."""

    def close(self) -> None:
        """Release the slot."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> HeldPart:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class ArrivingPart(HeldPart):
    """A part that is still being received; ``wait`` blocks until enough bytes are here and returns
    their number."""

    def __init__(
        self, label: Label, descriptor: int, *, size: int, wait: Callable[[int], int]
    ) -> None:
        super().__init__(label, descriptor, size=size)
        self._wait = wait
        self._come = 0

    def need(self, end: int) -> None:
        """Wait for the bytes up to ``end``; raises :class:`KeeperRefused` if they cannot be
        received."""
        if end > self._come:
            self._come = self._wait(min(end, self.size))


def opened_parts(
    labels: Sequence[Label], sizes: Sequence[int], *, descriptors: Sequence[int]
) -> list[HeldPart]:
    """Open the parts of these descriptors, and take ownership of them."""
    received(descriptors, len(labels))
    with ExitStack() as undo:
        for descriptor in descriptors:
            undo.callback(os.close, descriptor)
        parts = [
            HeldPart(label, descriptor, size=size)
            for label, size, descriptor in zip(labels, sizes, descriptors, strict=True)
        ]
        undo.pop_all()
    return parts


def received(descriptors: Sequence[int], count: int) -> None:
    """Close all descriptors and raise :class:`KeeperRefused` if fewer came than were sent: the
    kernel silently drops those above the process's limit."""
    if len(descriptors) < count:
        for descriptor in descriptors:
            os.close(descriptor)
        raise KeeperRefused(
            f"only {len(descriptors)} of {count} parts could be opened: this process has too many "
            "open files (ulimit -n)"
        )
