"""The record that a save leaves in migration.pth beside the registered names, and parts in memory.

Everybody can look into the file: under each registered name is what that object's ``state_dict``
gave, or the plain value. Under ``resile`` is what restoring exactly needs beside that: the step,
the tree of values with their exact types, and what each rank had for itself (random streams,
positions in data), as the bytes of a part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import torch

from resile.checkpoint.part import PartHeader, PartLayout, Slice, lay_out, read_header
from resile.decoding import decode_json
from resile.train.checkpoint.capture import Portion
from resile.train.migrate.errors import MigrationDamaged

__all__ = ["RECORD", "BufferPart", "Record", "in_buffer", "only"]

RECORD = "resile"
FORMAT = 1


@dataclass(eq=False)
class BufferPart:
    """A part whose bytes are in this process."""

    header: PartHeader
    layout: PartLayout
    buffer: memoryview

    @classmethod
    def from_bytes(cls, data: bytes | bytearray, *, source: str) -> BufferPart:
        """Raises PartDamaged."""
        buffer = memoryview(data)
        return cls(*read_header(buffer, source=source), buffer)

    def read(self, begin: int, end: int) -> memoryview:
        """Without a copy."""
        return self.buffer[begin:end]


def in_buffer(portion: Portion) -> BufferPart:
    """A copy of the live tensors as they are now."""
    buffer = memoryview(bytearray(portion.size))
    portion.write(buffer)
    return BufferPart(portion.header, portion.layout, buffer)


def only(portion: Portion, slices: dict[str, Slice], *, values: Any) -> Portion:
    """The same part with some of its tensors and other values."""
    header = msgspec.structs.replace(portion.header, slices=slices, values=values)
    return Portion(header, portion.tensors, lay_out(header))


@dataclass(frozen=True, eq=False)
class Record:
    """What stands under ``resile`` in the file."""

    step: int
    world: int
    values: Any
    ranks: tuple[bytes, ...]

    def to_file(self) -> dict[str, Any]:
        """As torch.save takes it and weights_only reads it."""
        return {
            "format": FORMAT,
            "step": self.step,
            "world": self.world,
            "values": msgspec.json.encode(self.values).decode(),
            "ranks": [torch.frombuffer(bytearray(one), dtype=torch.uint8) for one in self.ranks],
        }

    @classmethod
    def from_file(cls, found: Any, *, source: str) -> Record:
        """Raises MigrationDamaged if it is no record of ours."""
        try:
            if found["format"] != FORMAT:
                raise MigrationDamaged(
                    f"{source} was saved in format {found['format']}; this reads {FORMAT}"
                )
            return cls(
                step=int(found["step"]),
                world=int(found["world"]),
                values=decode_json(found["values"], object),
                ranks=tuple(_bytes(one) for one in found["ranks"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise MigrationDamaged(f"{source} was not saved by the migrator: {error!r}") from error


def _bytes(tensor: torch.Tensor) -> bytes:
    data = bytearray(tensor.numel())
    torch.frombuffer(data, dtype=torch.uint8).copy_(tensor)
    return bytes(data)
