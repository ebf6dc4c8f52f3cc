"""Parts whose bytes follow from what they are, so that anybody can check them."""

from __future__ import annotations

import hashlib

from resile.checkpoint.keeping import Hello, Label, SnapshotMemory
from resile.checkpoint.part import PartHeader, PartKind, Slice, lay_out, read_header

RANK, REPLICA = PartKind.RANK, PartKind.REPLICA


def part_bytes(label: Label, data: int) -> bytes:
    """A part with ``data`` bytes of tensor."""
    header = PartHeader(
        step=label.step,
        kind=label.place.kind,
        index=label.place.index,
        count=label.place.count,
        world=label.world,
        slices={"weights": Slice(dtype="U8", shape=(data,))},
    )
    layout = lay_out(header)
    seed = hashlib.sha256(f"{label.place.name} {label.step}".encode()).digest()
    return (layout.header + seed * (data // len(seed) + 1))[: layout.size]


def is_whole(label: Label, buffer: memoryview) -> bool:
    """Whether these are the bytes that :func:`part_bytes` makes."""
    header, layout = read_header(buffer, source=label.name)
    data = layout.size - len(layout.header)
    return header.step == label.step and bytes(buffer) == part_bytes(label, data)


def label_of(worker: Hello, kind: PartKind, step: int) -> Label:
    return Label(place=worker.place(kind), step=step, round=worker.round, world=worker.world)


def save(
    memory: SnapshotMemory, worker: Hello, *, step: int, kind: PartKind = RANK, data: int = 10_000
) -> Label:
    """One snapshot of one part."""
    content = part_bytes(label_of(worker, kind, step), data)
    begun = memory.begin(kind, step=step, size=len(content))
    begun.buffer[:] = content
    (label,) = memory.complete(kind)
    return label


def steps(memory: SnapshotMemory, kind: PartKind = RANK) -> list[int]:
    """Steps of which a whole part is held."""
    return sorted(one.label.step for one in memory.inventory() if one.label.place.kind is kind)
