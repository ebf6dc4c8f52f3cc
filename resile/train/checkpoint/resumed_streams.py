"""The random streams of a restored state, kept until training continues from it.

A DataLoader draws a number from torch's stream whenever an iterator is created. An uninterrupted
run creates the iterator of an epoch at its beginning; a killed one creates another in the middle.
So when an epoch is continued, its sampler resets the streams to the restored states when the first
batch is requested: numbers drawn since the restore (by the new iterator, by the script before its
loop) make no difference.

What can go wrong: several loaders in one loop. Each new iterator has drawn, and each sampler resets
the streams, until the first one whose data is read in this process: its draws are kept.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

from resile.train.checkpoint.rng import random_states, set_random_states

__all__ = ["ResumedStreams", "tell_random_states"]

WITH_PROCESSES = "_MultiProcessingDataLoaderIter"
"""A DataLoader's iterator with worker processes. The class is private to torch, so it is recognized
by name: should that change, only loops over several loaders are affected."""


class ResumedStreams:
    """The states of the streams at construction, to be reset when the first batch is read."""

    def __init__(self) -> None:
        self._states = random_states()
        self._reads_here = False

    def put_back(self) -> None:
        """Reset the streams: the first batch after the restore is requested."""
        if not self._reads_here:
            set_random_states(self._states)
            self._reads_here = not _is_for_loader_processes(sys._getframe(1))


def tell_random_states(objects: Iterable[Any]) -> None:
    """Pass the streams, all of which are restored by now, to the samplers and datasets."""
    streams = ResumedStreams()
    for one in objects:
        restored = getattr(one, "random_restored", None)
        if callable(restored):
            restored(streams)


def _is_for_loader_processes(frame: FrameType | None) -> bool:
    """Whether the requested indices go to a DataLoader's worker processes."""
    while frame is not None:
        if type(frame.f_locals.get("self")).__name__ == WITH_PROCESSES:
            return True
        frame = frame.f_back
    return False
