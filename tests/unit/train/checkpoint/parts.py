"""Parts in this process's memory, into which tests save a state and from which they restore it."""

from __future__ import annotations

from typing import Any

from resile.checkpoint.part import PartHeader, read_header
from resile.snapshots.slots import PartPlace
from resile.train.checkpoint.save.capture import Capture, Portion


class MemoryPart:
    """A written part, readable but not writable."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self.data = memoryview(data).toreadonly()
        self.header, self.layout = read_header(self.data, source="a part in memory")

    def read(self, begin: int, end: int) -> memoryview:
        return self.data[begin:end]


def place_of(header: PartHeader) -> PartPlace:
    """The place of a part among the parts of its step."""
    return PartPlace(kind=header.kind, index=header.index, count=header.count)


def written(portion: Portion) -> MemoryPart:
    buffer = bytearray(portion.size)
    portion.write(memoryview(buffer))
    return MemoryPart(buffer)


def save(state: dict[str, Any], *, step: int = 1, **place: Any) -> list[MemoryPart]:
    """Both parts of one worker; alone in the world unless ``place`` says otherwise."""
    captured = Capture(**place).take(state, step=step)
    return [written(captured.replica), written(captured.rank)]


def save_node(state: dict[str, Any], *, workers: int, step: int = 1) -> list[MemoryPart]:
    """All parts of one node whose workers have the same state."""
    parts: list[MemoryPart] = []
    for rank in range(workers):
        parts += save(
            state,
            step=step,
            rank=rank,
            world=workers,
            local_rank=rank,
            local_world=workers,
        )
    return parts
