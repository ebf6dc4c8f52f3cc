"""Wait until a step is committed to storage, with the same result on all workers.

Every worker watches its own node's writes. Rank 0's writer commits the checkpoint, so rank 0
reports success. A worker that fails reports the failure itself: rank 0's writer would wait for the
missing parts until its timeout. The first report is the result for all.
"""

from __future__ import annotations

import time

from resile.train.checkpoint.agreement import Agreement
from resile.train.checkpoint.errors import NotSaved
from resile.train.checkpoint.saving import Saver

__all__ = ["confirm"]

_POLL = 0.02
"""Seconds between two checks: short compared to any write to storage."""

_WELL = ""


def confirm(channel: Agreement, saver: Saver, *, step: int, topic: str, timeout: float) -> None:
    """Return on every worker when the checkpoint of ``step`` exists.

    ``topic`` is the key of the result. Raises :class:`NotSaved` on every worker if one of them
    cannot write its parts, and TimeoutError.
    """
    place = channel.place
    deadline = time.monotonic() + timeout
    mine: str | None = None
    while not channel.said(topic):
        if mine is None and (mine := saver.verdict(step)) is not None:
            if mine != _WELL:
                channel.say(topic, f"rank {place.rank}: {mine}" if place.world > 1 else mine)
            elif place.rank == 0:
                channel.say(topic, _WELL)
        elif time.monotonic() > deadline:
            raise TimeoutError(f"storage took longer than {timeout:g} s")
        else:
            time.sleep(_POLL)
    result = channel.hear(topic, str)
    if result != _WELL:
        raise NotSaved(f"step {step} is not on storage: {result}")
