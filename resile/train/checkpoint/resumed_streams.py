"""The random streams of a restored state, kept until training goes on from it.

A DataLoader draws a number from torch's stream whenever an iterator is made. A run that was never
disturbed made the iterator of an epoch at its beginning; one that was killed makes another in the
middle. So where an epoch goes on, its sampler puts the streams back to what was restored when the
first batch is asked for: nothing that was drawn since the restore (by the new iterator, by the
script before its loop) makes a difference.

What can go wrong: several loaders in one loop. Each new iterator has drawn, and each sampler puts
the streams back, until the first one whose data is read in this process: what that draws stays.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

from resile.train.checkpoint.rng import random_states, set_random_states

__all__ = ["ResumedStreams", "tell_random_states"]

WITH_PROCESSES = "_MultiProcessingDataLoaderIter"
"""A DataLoader's iterator with worker processes. The class is torch's own affair, so it is known by
its name: should that change, only several loaders in one loop are no longer told apart."""


class ResumedStreams:
    """Where the streams are now, and have to be when the first batch is read."""

    def __init__(self) -> None:
        self._states = random_states()
        self._reads_here = False

    def put_back(self) -> None:
        """The epoch of the restored state goes on: its first batch is asked for."""
        if not self._reads_here:
            set_random_states(self._states)
            self._reads_here = not _is_for_loader_processes(sys._getframe(1))


def tell_random_states(objects: Iterable[Any]) -> None:
    """Hand the streams, all of which are restored by now, to the samplers and datasets."""
    streams = ResumedStreams()
    for one in objects:
        restored = getattr(one, "random_restored", None)
        if callable(restored):
            restored(streams)


def _is_for_loader_processes(frame: FrameType | None) -> bool:
    """Whether the indices that are asked for go to a DataLoader's processes."""
    while frame is not None:
        if type(frame.f_locals.get("self")).__name__ == WITH_PROCESSES:
            return True
        frame = frame.f_back
    return False
