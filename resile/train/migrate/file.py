"""The file migration.pth: its format, and how it is written and read.

The file can be inspected: under each registered name is the result of that object's
``state_dict``, or the plain value. Under ``resile`` is what an exact restore needs in addition:
the step, the tree of values with their exact types, and the state per rank (random streams,
positions in data), as the bytes of a part.

Every worker sends what only it has through the round's store; rank 0 assembles sharded tensors and
writes the file under a temporary name, syncs, reads it back and renames it. A kill at any point
leaves the previous file as it was. The state must fit into the memory of rank 0 twice.

The file is read with torch's weights_only, so it cannot run code. Its tensors and its record are
converted to the parts of a checkpoint, which are restored like any checkpoint, at any world size.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch

from resile.checkpoint.errors import StorageError
from resile.checkpoint.export import whole_tensors
from resile.checkpoint.part import PartHeader, PartKind, PartLayout, Slice, lay_out, read_header
from resile.decoding import decode_json
from resile.train.checkpoint.restore.apply_state import restore
from resile.train.checkpoint.round_channel import RankInfo, RoundChannel
from resile.train.checkpoint.save.capture import Capture, Portion
from resile.train.checkpoint.save.torch_file import write_torch_file
from resile.train.migrate.errors import MigrationDamaged

__all__ = [
    "BufferPart",
    "GatheredStep",
    "RECORD",
    "Record",
    "SavedState",
    "clear_remains",
    "gather",
    "in_buffer",
    "only",
    "write",
]


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


_PIECE = 4 << 20
"""A store refuses values above 8 MiB."""


@dataclass(frozen=True, eq=False)
class GatheredStep:
    """A step on rank 0: its own live state, and what the other ranks sent."""

    state: dict[str, Any]
    step: int
    world: int
    slices: tuple[BufferPart, ...]
    """The slices of sharded tensors."""

    own: tuple[bytes, ...]
    """The state of each rank alone."""


def gather(state: dict[str, Any], channel: RoundChannel, *, step: int) -> GatheredStep | None:
    """Collect a step on rank 0; None on the others. All workers call it."""
    place = channel.place
    portion = _capture(place).take(state, step=step).rank
    slices = portion.header.slices
    sharded = {name: one for name, one in slices.items() if one.whole is not None}
    private = {name: one for name, one in slices.items() if one.whole is None}
    parts = (
        in_buffer(only(portion, sharded, values=None)),
        in_buffer(only(portion, private, values=portion.header.values)),
    )
    if place.rank != 0:
        for topic, part in zip(("slices", "own"), parts, strict=True):
            _send(channel, f"{topic}/{place.rank}", part.buffer)
        return None
    others = range(1, place.world)
    received = [_receive(channel, f"slices/{rank}") for rank in others]
    return GatheredStep(
        state=state,
        step=step,
        world=place.world,
        slices=(
            parts[0],
            *(BufferPart.from_bytes(one, source="a rank's slices") for one in received),
        ),
        own=(bytes(parts[1].buffer), *(_receive(channel, f"own/{rank}") for rank in others)),
    )


def write(gathered: GatheredStep, target: Path) -> None:
    """Write the file. Raises CheckpointError and keeps the previous file."""
    capture = _capture(RankInfo(0, gathered.world, 0, 1, 0, 1, 0))
    values = capture.take(gathered.state, step=gathered.step).replica.header.values
    record = Record(gathered.step, gathered.world, values, gathered.own)
    whole = {**gathered.state, RECORD: record.to_file()}
    replica = in_buffer(capture.take(whole, step=gathered.step).replica)
    parts = (replica, *gathered.slices)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"cannot create {target.parent}: {error.strerror or error}") from error
    write_torch_file(parts, whole_tensors(parts), target=target)


def clear_remains(target: Path) -> None:
    """Remove temporary files of killed saves."""
    with suppress(OSError):
        for remains in target.parent.glob(f".{target.name}.*.tmp"):
            remains.unlink(missing_ok=True)


def _capture(place: RankInfo) -> Capture:
    """A Capture whose replica part has everything that is the same on all ranks."""
    return Capture(rank=place.rank, world=place.world, local_rank=0, local_world=1)


def _send(channel: RoundChannel, topic: str, data: memoryview) -> None:
    pieces = list(_pieces(data))
    for number, piece in enumerate(pieces):
        channel.put(f"{topic}/{number}", bytes(piece))
    channel.put(f"{topic}/count", len(pieces))


def _receive(channel: RoundChannel, topic: str) -> bytes:
    count = channel.get(f"{topic}/count", int)
    return b"".join(channel.get(f"{topic}/{number}", bytes) for number in range(count))


def _pieces(data: memoryview) -> Iterator[memoryview]:
    for begin in range(0, len(data), _PIECE):
        yield data[begin : begin + _PIECE]


class SavedState:
    """An opened migration.pth."""

    def __init__(self, path: Path) -> None:
        """Raises MigrationDamaged if it cannot be read."""
        try:
            found = torch.load(path, weights_only=True, map_location="cpu", mmap=True)
        except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
            reason = str(error).partition("\n")[0]
            raise MigrationDamaged(f"{path} cannot be read: {reason}") from error
        if not isinstance(found, dict):
            raise MigrationDamaged(f"{path} holds a {type(found).__name__}, not a dictionary")
        record = Record.from_file(found.pop(RECORD, None), source=str(path))
        self._record = record
        self._ranks = [
            BufferPart.from_bytes(one, source=f"{path}, rank {rank}")
            for rank, one in enumerate(record.ranks)
        ]
        portion = Capture().take(found, step=record.step).replica
        header = PartHeader(
            step=record.step,
            kind=PartKind.REPLICA,
            index=0,
            count=1,
            world=record.world,
            slices=portion.header.slices,
            values=record.values,
        )
        copied = in_buffer(portion)
        self._replica = BufferPart(header, copied.layout, copied.buffer)

    @property
    def step(self) -> int:
        """Number of steps since the start of the run that saved it."""
        return self._record.step

    @property
    def world(self) -> int:
        """The world size that saved it."""
        return self._record.world

    def load(self, state: dict[str, Any], *, rank: int) -> None:
        """Load all of it. Raises StateMismatch, with nothing changed, if the names differ."""
        restore(state, [self._replica, *self._ranks], rank=rank)

    def load_one(self, name: str, value: Any, *, rank: int) -> bool:
        """Load a single name; False if the file does not have it."""
        values = self._record.values
        if name not in values:
            return False
        header = msgspec.structs.replace(self._replica.header, values={name: values[name]})
        part = BufferPart(header, self._replica.layout, self._replica.buffer)
        restore({name: value}, [part, *self._ranks], rank=rank)
        return True
