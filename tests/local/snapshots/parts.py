"""Parts whose bytes are derived from their label, so that they can be verified."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor

import msgspec

from resile.checkpoint.part import PartHeader, PartKind, Slice, lay_out, read_header
from resile.snapshots.client import SnapshotClient
from resile.snapshots.held_part import HeldPart
from resile.snapshots.messages import WorkerHello
from resile.snapshots.slot_pair import SlotBuffer
from resile.snapshots.slots import Label

RANK, REPLICA = PartKind.RANK, PartKind.REPLICA

BEYOND_ALL = 1 << 40
"""A step that no test reaches."""


def part_bytes(label: Label, data: int) -> bytes:
    """A part with ``data`` bytes of tensor."""
    header = PartHeader(
        step=label.step,
        kind=label.place.kind,
        index=label.place.index,
        count=label.place.count,
        world=label.world,
        slices={"weights": Slice(dtype="U8", shape=(data,))},
        written_group=label.place.group or msgspec.UNSET,
    )
    layout = lay_out(header)
    seed = hashlib.sha256(f"{label.place.name} {label.step}".encode()).digest()
    return (layout.header + seed * (data // len(seed) + 1))[: layout.size]


def is_whole(label: Label, buffer: memoryview) -> bool:
    """Whether these are the bytes that :func:`part_bytes` makes."""
    header, layout = read_header(buffer, source=label.name)
    data = layout.size - len(layout.header)
    return header.step == label.step and bytes(buffer) == part_bytes(label, data)


def label_of(worker: WorkerHello, kind: PartKind, step: int) -> Label:
    return Label(place=worker.place(kind), step=step, round=worker.round, world=worker.world)


def save(
    memory: SnapshotClient,
    worker: WorkerHello,
    *,
    step: int,
    kind: PartKind = RANK,
    data: int = 10_000,
) -> Label:
    """One snapshot of one part."""
    content = part_bytes(label_of(worker, kind, step), data)
    begun = memory.begin(kind, step=step, size=len(content))
    begun.buffer[:] = content
    (label,) = memory.complete(kind)
    return label


def steps(memory: SnapshotClient, kind: PartKind = RANK) -> list[int]:
    """The steps of which an intact part is held."""
    return sorted(one.label.step for one in memory.inventory() if one.label.place.kind is kind)


def open_part(memory: SnapshotClient, label: Label) -> HeldPart:
    """One part that is held on this node."""
    (part,) = memory.open_all((label,))
    return part


def copy_to(memory: SnapshotClient, address: str) -> None:
    """Copy this node's parts to the keeper at that address from now on; drop nothing."""
    memory.resumed(BEYOND_ALL, next=address)


class Beginning:
    """A ``begin`` in a thread, which waits while the slot is held."""

    def __init__(self, memory: SnapshotClient, *, step: int) -> None:
        self.waits = threading.Event()
        """Set once the keeper was informed that a worker waits."""
        say = memory._say_waiting

        def said(kind: PartKind, step: int) -> None:
            say(kind, step)
            self.waits.set()

        memory._say_waiting = said  # type: ignore[method-assign]
        with_one = ThreadPoolExecutor(max_workers=1)
        self._begun = with_one.submit(memory.begin, RANK, step=step, size=10)
        with_one.shutdown(wait=False)

    @property
    def has_begun(self) -> bool:
        return self._begun.done()

    def begun(self) -> SlotBuffer:
        """Wait for it."""
        return self._begun.result(timeout=60)
