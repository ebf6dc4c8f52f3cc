"""The limit of an HTTP answer of a master.

A master's answers contain what a job's own pods sent, so none is read without a limit, and none is
decompressed: a few kilobytes could stand for gigabytes. The limit grows with the job, so that a
small one cannot cost its client as much memory as the largest may.
"""

from __future__ import annotations

from resile.job.limits import MOST_NODES
from resile.wire.errors import WireError

__all__ = ["LARGEST_ANSWER", "TooLong", "answer_limit"]

EMPTY_JOB = 512 * 1024
"""Bytes for everything but nodes: the report of a failure, up to a thousand events."""

EACH_NODE = 4 * 1024
"""Bytes for a node: the status from the controller and the master, some hundred bytes each."""


class TooLong(WireError):
    """An answer was longer than any of a job of that size, or compressed."""


def answer_limit(nodes: int) -> int:
    """Return the limit in bytes of an answer about a job of at most ``nodes`` nodes."""
    return EMPTY_JOB + EACH_NODE * min(nodes, MOST_NODES)


LARGEST_ANSWER = answer_limit(MOST_NODES)
