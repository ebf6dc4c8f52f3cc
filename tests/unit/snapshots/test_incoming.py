"""A part that is being received: waiting for it, and giving up."""

from __future__ import annotations

import os
import threading

import pytest

from resile.checkpoint.errors import NoMemoryForSnapshot
from resile.snapshots import memory
from resile.snapshots.errors import PeerError
from resile.snapshots.peers.client import IncomingPart


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - counted, not walked


def test_what_is_forgotten_before_it_begins_leaves_no_descriptor() -> None:
    slot = memory.create()
    go_on, over = threading.Event(), threading.Event()

    def fetch(arrival: IncomingPart) -> None:
        go_on.wait()
        arrival.begin(slot, 100)
        over.set()

    before = _descriptors()
    arrival = IncomingPart(fetch)
    arrival.forget()
    go_on.set()
    assert over.wait(30)
    assert _descriptors() <= before  # fewer: other tests' may be collected meanwhile
    os.close(slot)
    with pytest.raises(PeerError, match="the fetch was cancelled"):
        arrival.opened()


def test_what_cannot_begin_says_why_to_everybody() -> None:
    def fetch(_: IncomingPart) -> None:
        raise NoMemoryForSnapshot("it needs 3.0 MiB")

    arrival = IncomingPart(fetch)
    for _ in range(2):
        with pytest.raises(NoMemoryForSnapshot, match=r"needs 3\.0 MiB"):
            arrival.opened()
    assert arrival.failed
