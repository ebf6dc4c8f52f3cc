"""Slots: memory for one part of a snapshot, with a page in front that describes its content.

Each part has two, used in turn, so a kill in the middle of a copy leaves the previous one intact.
The page in front (the *control record*) may be read by any process at any time: it ends with its
own checksum, so a torn record is recognised and means that the slot is being written.

Access to a slot is controlled by ``flock``, which the kernel releases when its holder dies: filling
a slot takes an exclusive lock, writing it to storage or restoring from it a shared one. Locks
belong to descriptors made by :func:`~resile.snapshots.memory.same_memory`, never to the snapshot
server's own.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

import msgspec

from resile.checkpoint.part import PartKind, part_name
from resile.group_name import LONGEST_GROUP, MAIN_GROUP, describe_group
from resile.snapshots.memory import PAGE, reopen

__all__ = [
    "BEGIN",
    "EMPTY",
    "SlotRecord",
    "Label",
    "PartPlace",
    "SlotState",
    "begun",
    "choose",
    "clear_control",
    "completed",
    "decode_control",
    "encode_control",
    "hold",
    "read_control",
    "take",
    "write_control",
]

BEGIN = PAGE
"""Offset of a part's bytes in its slot."""

_MAGIC = b"RESILE02"
_RECORD = struct.Struct(f"<8sQIIqqIIIQ{LONGEST_GROUP}s")
_CHECK = struct.Struct("<I")
_SIZE = _RECORD.size + _CHECK.size
_KINDS = tuple(PartKind)

_TORN_TRIES = 20
_TORN_PAUSE = 0.0005
"""Writing a record takes well under a microsecond, unless its writer was stopped or killed."""


class SlotState(IntEnum):
    """The state of a slot."""

    EMPTY = 0
    WRITING = 1
    COMPLETE = 2


class PartPlace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The identity of a part of a snapshot, at any step; each has one pair of slots."""

    kind: PartKind
    index: int
    count: int
    group: str = MAIN_GROUP
    """The group of the snapshot. The same rank of another group is another place."""

    @property
    def name(self) -> str:
        """The part's name as in file names, with the group unless that is the main one."""
        name = part_name(self.kind, self.index, self.count)
        return f"{name} of {describe_group(self.group)}" if self.group else name


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """The label of a part in memory: its place, and the step and round it was taken in."""

    place: PartPlace
    step: int
    round: int
    world: int

    @property
    def name(self) -> str:
        """For messages: step 120 of rank-00001-of-00004."""
        return f"step {self.step} of {self.place.name}"


@dataclass(frozen=True)
class SlotRecord:
    """The content of a slot's control record."""

    state: SlotState
    generation: int = 0
    """The start of the write, in nanoseconds of the monotonic clock, so it differs for every write:
    a record that is equal before and after reading means that nothing changed."""

    label: Label | None = None
    length: int = 0
    """Length of the part in bytes."""


EMPTY = SlotRecord(SlotState.EMPTY)


def encode_control(control: SlotRecord) -> bytes:
    """Encode a record; a slot that was never written has none."""
    label = control.label
    assert label is not None, "only a slot that is written has a record"
    record = _RECORD.pack(
        _MAGIC,
        control.generation,
        control.state,
        _KINDS.index(label.place.kind),
        label.step,
        label.round,
        label.place.index,
        label.place.count,
        label.world,
        control.length,
        label.place.group.encode("ascii"),
    )
    return record + _CHECK.pack(zlib.crc32(record))


def decode_control(data: bytes) -> SlotRecord | None:
    """Decode a record; None if it is torn."""
    if not any(data):
        return EMPTY
    record, check = data[: _RECORD.size], data[_RECORD.size : _SIZE]
    if len(check) < _CHECK.size or _CHECK.unpack(check)[0] != zlib.crc32(record):
        return None
    magic, generation, state, kind, step, round_, index, count, world, length, group = (
        _RECORD.unpack(record)
    )
    if magic != _MAGIC:
        return None
    whose = group.rstrip(b"\0").decode("ascii")
    place = PartPlace(kind=_KINDS[kind], index=index, count=count, group=whose)
    label = Label(place=place, step=step, round=round_, world=world)
    return SlotRecord(SlotState(state), generation, label, length)


def read_control(descriptor: int) -> SlotRecord:
    """Read a slot's record. If it stays torn, its writer was killed: the slot counts as being
    written."""
    for _ in range(_TORN_TRIES):
        control = decode_control(os.pread(descriptor, _SIZE, 0))
        if control is not None:
            return control
        time.sleep(_TORN_PAUSE)
    return SlotRecord(SlotState.WRITING)


def write_control(descriptor: int, control: SlotRecord) -> None:
    """Write a slot's record; requires the exclusive lock."""
    os.pwrite(descriptor, encode_control(control), 0)


def choose(slots: Sequence[SlotRecord], step: int) -> int:
    """The slot to fill with ``step``: the one whose content is needed least.

    First one without a complete part; then one of ``step`` or later, left from before training went
    back to an earlier step; then the one that was filled first.
    """

    def worth(number: int) -> tuple[int, int]:
        control = slots[number]
        if control.state is not SlotState.COMPLETE or control.label is None:
            return (0, 0)
        if control.label.step >= step:
            return (1, -control.label.step)
        return (2, control.generation)

    return min(range(len(slots)), key=worth)


def clear_control(descriptor: int) -> None:
    """Mark the slot as empty; requires a lock, so that it is not being filled meanwhile."""
    os.pwrite(descriptor, bytes(_SIZE), 0)


def hold(descriptor: int) -> int | None:
    """Lock a slot for reading: a descriptor that keeps it from being overwritten until all copies
    of the descriptor are closed; None if the slot is being written. It may be passed to another
    process, and the lock with it."""
    return _locked(descriptor, fcntl.LOCK_SH)


def take(descriptor: int) -> int | None:
    """Lock a slot for writing: a descriptor with the exclusive lock; None if the slot is locked."""
    return _locked(descriptor, fcntl.LOCK_EX)


def _locked(descriptor: int, how: int) -> int | None:
    own = reopen(descriptor)
    try:
        fcntl.flock(own, how | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(own)
        return None
    return own


def begun(label: Label, *, length: int) -> SlotRecord:
    """The record of a slot that is being filled."""
    return SlotRecord(SlotState.WRITING, time.monotonic_ns(), label, length)


def completed(begun: SlotRecord) -> SlotRecord:
    """The record of the same slot once it is complete."""
    return replace(begun, state=SlotState.COMPLETE)
