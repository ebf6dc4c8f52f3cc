"""Writes the state of all workers at one step as one file, on rank 0.

Every worker sends what only it has through the round's store; rank 0 assembles sharded tensors and
writes the file under a temporary name, syncs, reads it back and renames it. A kill at any point
leaves the previous file as it was. The state must fit into the memory of rank 0 twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resile.checkpoint.assemble import whole_tensors
from resile.checkpoint.errors import StorageTrouble
from resile.train.checkpoint.agreement import Agreement, Place
from resile.train.checkpoint.capture import Capture
from resile.train.checkpoint.torch_file import write_torch_file
from resile.train.migrate.file import RECORD, BufferPart, Record, in_buffer, only

__all__ = ["Gathered", "clear_remains", "gather", "write"]

_PIECE = 4 << 20
"""A store refuses values above 8 MiB."""


@dataclass(frozen=True, eq=False)
class Gathered:
    """A step on rank 0: its own live state, and what the other ranks sent."""

    state: dict[str, Any]
    step: int
    world: int
    slices: tuple[BufferPart, ...]
    """The slices of sharded tensors."""

    own: tuple[bytes, ...]
    """The state of each rank alone."""


def gather(state: dict[str, Any], channel: Agreement, *, step: int) -> Gathered | None:
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
    return Gathered(
        state=state,
        step=step,
        world=place.world,
        slices=(
            parts[0],
            *(BufferPart.from_bytes(one, source="a rank's slices") for one in received),
        ),
        own=(bytes(parts[1].buffer), *(_receive(channel, f"own/{rank}") for rank in others)),
    )


def write(gathered: Gathered, target: Path) -> None:
    """Write the file. Raises CheckpointError and keeps the previous file."""
    capture = _capture(Place(0, gathered.world, 0, 1, 0, 1, 0))
    values = capture.take(gathered.state, step=gathered.step).replica.header.values
    record = Record(gathered.step, gathered.world, values, gathered.own)
    whole = {**gathered.state, RECORD: record.to_file()}
    replica = in_buffer(capture.take(whole, step=gathered.step).replica)
    parts = (replica, *gathered.slices)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageTrouble(f"cannot create {target.parent}: {error.strerror or error}") from error
    write_torch_file(parts, whole_tensors(parts), target=target)


def clear_remains(target: Path) -> None:
    """Remove temporary files of killed saves."""
    with suppress(OSError):
        for remains in target.parent.glob(f".{target.name}.*.tmp"):
            remains.unlink(missing_ok=True)


def _capture(place: Place) -> Capture:
    """A Capture whose replica part has everything that is the same on all ranks."""
    return Capture(rank=place.rank, world=place.world, local_rank=0, local_world=1)


def _send(channel: Agreement, topic: str, data: memoryview) -> None:
    pieces = list(_pieces(data))
    for number, piece in enumerate(pieces):
        channel.say(f"{topic}/{number}", bytes(piece))
    channel.say(f"{topic}/count", len(pieces))


def _receive(channel: Agreement, topic: str) -> bytes:
    count = channel.hear(f"{topic}/count", int)
    return b"".join(channel.hear(f"{topic}/{number}", bytes) for number in range(count))


def _pieces(data: memoryview) -> Iterator[memoryview]:
    for begin in range(0, len(data), _PIECE):
        yield data[begin : begin + _PIECE]
