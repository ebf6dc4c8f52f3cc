"""Resile's record in migration.pth beside the registered names, and parts in memory.

The file can be inspected: under each registered name is the result of that object's ``state_dict``,
or the plain value. Under ``resile`` is what an exact restore needs in addition: the step, the tree
of values with their exact types, and the state per rank (random streams, positions in data), as the
bytes of a part.
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
        """Return the bytes without a copy."""
        return self.buffer[begin:end]


def in_buffer(portion: Portion) -> BufferPart:
    """Copy the live tensors as they are now."""
    buffer = memoryview(bytearray(portion.size))
    portion.write(buffer)
    return BufferPart(portion.header, portion.layout, buffer)


def only(portion: Portion, slices: dict[str, Slice], *, values: Any) -> Portion:
    """Return the same part with a selection of its tensors and other values."""
    header = msgspec.structs.replace(portion.header, slices=slices, values=values)
    return Portion(header, portion.tensors, lay_out(header))


@dataclass(frozen=True, eq=False)
class Record:
    """The content of ``resile`` in the file."""

    step: int
    world: int
    values: Any
    ranks: tuple[bytes, ...]

    def to_file(self) -> dict[str, Any]:
        """Return it in a form that torch.load reads with weights_only."""
        return {
            "format": FORMAT,
            "step": self.step,
            "world": self.world,
            "values": msgspec.json.encode(self.values).decode(),
            "ranks": [torch.frombuffer(bytearray(one), dtype=torch.uint8) for one in self.ranks],
        }

    @classmethod
    def from_file(cls, found: Any, *, source: str) -> Record:
        """Read a record. Raises MigrationDamaged if it is not one."""
        try:
            if found["format"] != FORMAT:
                raise MigrationDamaged(
                    f"{source} was saved in format {found['format']}; this version reads {FORMAT}"
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
