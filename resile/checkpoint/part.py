"""A part: one worker's share of a snapshot or checkpoint, as one contiguous range of bytes.

The bytes are a safetensors file, in memory as on storage, so a checkpoint is written by copying a
snapshot, and any safetensors reader can open it. What safetensors cannot express (the position of a
slice in its tensor, the values that are not tensors, step and world) is in the header's
``__metadata__`` under ``resile``, as JSON.

There are two kinds. A *replica* part holds state that is identical on every node, split among the
workers of a node: any single node can provide all of it. A *rank* part holds what only this worker
has: slices of sharded tensors, random states.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

import msgspec

from resile.checkpoint.errors import PartDamaged
from resile.decoding import JsonDecoder
from resile.group_name import MAIN_GROUP

__all__ = [
    "ALIGNMENT",
    "ITEM_SIZES",
    "LENGTH",
    "PartHeader",
    "PartKind",
    "PartLayout",
    "ReadablePart",
    "Slice",
    "SlicePosition",
    "TensorEntry",
    "TensorSpec",
    "encode_header",
    "lay_out",
    "part_name",
    "read_header",
]


ITEM_SIZES = {
    "F64": 8, "I64": 8, "U64": 8, "C64": 8,
    "F32": 4, "I32": 4, "U32": 4,
    "F16": 2, "BF16": 2, "I16": 2, "U16": 2,
    "F8_E4M3": 1, "F8_E5M2": 1, "I8": 1, "U8": 1, "BOOL": 1,
}  # fmt: skip
"""Bytes of one element, by safetensors type name."""

LENGTH = 8
"""Bytes of the length field in front of the header."""

ALIGNMENT = 64
"""Data starts at a multiple of this, and larger elements come first: every tensor is aligned."""


class TensorSpec(Protocol):
    """A tensor to be written to a file."""

    @property
    def dtype(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def size(self) -> int: ...


class TensorEntry(msgspec.Struct):
    """A tensor's entry in the header; offsets count from the end of the header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def encode_header(
    tensors: Mapping[str, TensorSpec], *, metadata: Mapping[str, str], room: int = 0
) -> tuple[bytes, dict[str, TensorEntry]]:
    """Encode the bytes of the file before its data. Returns them and the entry of each tensor, in
    file order. ``room``: the minimum length of these bytes."""
    entries: dict[str, TensorEntry] = {}
    offset = 0
    for name in sorted(tensors, key=lambda name: (-ITEM_SIZES[tensors[name].dtype], name)):
        one = tensors[name]
        entries[name] = TensorEntry(one.dtype, one.shape, (offset, offset + one.size))
        offset += one.size
    text = msgspec.json.encode({"__metadata__": metadata, **entries})
    length = max(len(text), room - LENGTH)
    length += -(LENGTH + length) % ALIGNMENT
    return length.to_bytes(LENGTH, "little") + text.ljust(length), entries


LARGEST_HEADER = 100_000_000
"""safetensors' own limit."""


class PartKind(str, Enum):
    """The two kinds of part: identical on every node, or one rank's own."""

    REPLICA = "replica"
    RANK = "rank"


def part_name(kind: PartKind, index: int, count: int) -> str:
    """A part's name: unique among the parts of a step on a node, sorted by number."""
    return f"{kind.value}-{index:05d}-of-{count:05d}"


class Slice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A slice of a tensor: all of it unless ``whole`` gives the shape of the full tensor."""

    dtype: str
    shape: tuple[int, ...]
    whole: tuple[int, ...] | None = None
    offsets: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """Size in bytes."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count * ITEM_SIZES[self.dtype]

    @property
    def is_possible(self) -> bool:
        """Whether the slice lies within its tensor."""
        offsets = (0,) * len(self.shape) if self.offsets is None else self.offsets
        whole = self.shape if self.whole is None else self.whole
        return len(self.shape) == len(offsets) == len(whole) and all(
            extent >= 0 <= offset and offset + extent <= limit
            for extent, offset, limit in zip(self.shape, offsets, whole, strict=True)
        )


class PartHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The header of a part: its identity, slices and values."""

    step: int
    kind: PartKind
    index: int
    """The worker's rank (kind rank) or local rank (kind replica)."""

    count: int
    """The number of such parts: the world size, or the workers of its node."""

    world: int
    slices: dict[str, Slice] = msgspec.field(default_factory=dict)
    values: Any = None
    """The tree of all values that are not tensors, as encoded by the training library."""

    written_group: str | msgspec.UnsetType = msgspec.field(name="group", default=msgspec.UNSET)
    """Absent for the main group, so that its bytes are the same as before there were groups."""

    @property
    def group(self) -> str:
        """The group that the state belongs to."""
        return MAIN_GROUP if self.written_group is msgspec.UNSET else self.written_group

    @property
    def name(self) -> str:
        """The part's name, also used in file names; see :func:`part_name`."""
        return part_name(self.kind, self.index, self.count)


class SlicePosition(msgspec.Struct, frozen=True):
    """The position of a slice's bytes, from the start of the part."""

    slice: Slice
    begin: int
    end: int


class PartLayout(msgspec.Struct, frozen=True):
    """An encoded header, and the positions of the slices after it."""

    header: bytes
    places: dict[str, SlicePosition]
    size: int
    """Size of the whole part in bytes."""


_described = JsonDecoder[dict[str, msgspec.Raw]](dict[str, msgspec.Raw])
_metadata = JsonDecoder[dict[str, str]](dict[str, str])
_about = JsonDecoder[PartHeader](PartHeader)
_entry = JsonDecoder[TensorEntry](TensorEntry)


def lay_out(header: PartHeader, *, room: int = 0) -> PartLayout:
    """Lay out a part. ``room``: the minimum length of the header, so that a part whose values grow
    a little keeps its tensors at the same positions."""
    about = msgspec.json.encode(header).decode()
    encoded, entries = encode_header(header.slices, metadata={"resile": about}, room=room)
    places = _places(header, entries, start=len(encoded))
    return PartLayout(encoded, places, _end(places, start=len(encoded)))


def read_header(data: memoryview, *, source: str) -> tuple[PartHeader, PartLayout]:
    """Decode a part's header from its first bytes (all of them, or at least the header).

    ``source`` names it in errors; raises :class:`PartDamaged`.
    """
    try:
        length = int.from_bytes(data[:LENGTH], "little")
        if not 2 <= length <= LARGEST_HEADER or len(data) < LENGTH + length:
            raise ValueError(f"a header cannot be {length} bytes long")
        raw = bytes(data[: LENGTH + length])
        described = _described.decode(raw[LENGTH:])
        header = _about.decode(_metadata.decode(described.pop("__metadata__"))["resile"])
        entries = {name: _entry.decode(one) for name, one in described.items()}
        start = LENGTH + length
        places = _places(header, entries, start=start)
        if len(places) != len(header.slices):
            raise ValueError("some of the tensors that it names are missing")
        for name, place in places.items():
            if not place.slice.is_possible:
                raise ValueError(f"{name} has an impossible shape")
            if place.begin < start or place.end - place.begin != place.slice.size:
                raise ValueError(f"the size of {name} does not match its shape")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PartDamaged(f"{source} is not a part of a checkpoint: {error}") from None
    return header, PartLayout(raw, places, _end(places, start=start))


def _places(
    header: PartHeader, entries: Mapping[str, TensorEntry], *, start: int
) -> dict[str, SlicePosition]:
    """The positions of slices in a part whose data begins at ``start``."""
    return {
        name: SlicePosition(header.slices[name], start + begin, start + end)
        for name, (begin, end) in ((name, one.data_offsets) for name, one in entries.items())
    }


def _end(places: Mapping[str, SlicePosition], *, start: int) -> int:
    return max((place.end for place in places.values()), default=start)


class ReadablePart(Protocol):
    """A readable part, in memory or on storage."""

    @property
    def header(self) -> PartHeader:
        """The part's header."""

    @property
    def layout(self) -> PartLayout:
        """The positions of its slices."""

    def read(self, begin: int, end: int) -> memoryview:
        """Bytes at these offsets from the start of the part; without a copy if it is in memory."""
