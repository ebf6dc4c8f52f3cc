"""A part: what one worker puts into one snapshot or checkpoint, as one run of bytes.

The bytes are a safetensors file, in memory as on storage, so a checkpoint is written by copying a
snapshot, and any safetensors reader can look into it. What safetensors has no word for (where a
slice lies in its tensor, the values that are not tensors, step and world) is in the header's
``__metadata__`` under ``resile``, as JSON.

There are two kinds. A *replica* part holds what every node has alike, split among the workers of a
node: any one node can give all of it. A *rank* part holds what only this worker has: slices of
sharded tensors, random states.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any

import msgspec

from resile.checkpoint.errors import PartDamaged
from resile.checkpoint.safetensors_header import ITEM_SIZES, LENGTH, TensorEntry, encode_header
from resile.decoding import JsonDecoder
from resile.groupname import MAIN_GROUP

__all__ = [
    "PartHeader",
    "PartKind",
    "PartLayout",
    "Placed",
    "Slice",
    "lay_out",
    "part_name",
    "read_header",
]

LARGEST_HEADER = 100_000_000
"""safetensors' own limit."""


class PartKind(str, Enum):
    """Who else has the same."""

    REPLICA = "replica"
    RANK = "rank"


def part_name(kind: PartKind, index: int, count: int) -> str:
    """Unique among the parts of one step on one node, and sorted as they are numbered."""
    return f"{kind.value}-{index:05d}-of-{count:05d}"


class Slice(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a tensor: all of it unless ``whole`` says how large the tensor is."""

    dtype: str
    shape: tuple[int, ...]
    whole: tuple[int, ...] | None = None
    offsets: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count * ITEM_SIZES[self.dtype]

    @property
    def is_possible(self) -> bool:
        """Whether such a slice can lie in such a tensor."""
        offsets = (0,) * len(self.shape) if self.offsets is None else self.offsets
        whole = self.shape if self.whole is None else self.whole
        return len(self.shape) == len(offsets) == len(whole) and all(
            extent >= 0 <= offset and offset + extent <= limit
            for extent, offset, limit in zip(self.shape, offsets, whole, strict=True)
        )


class PartHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What a part says of itself."""

    step: int
    kind: PartKind
    index: int
    """The worker's rank (kind rank) or local rank (kind replica)."""

    count: int
    """Of how many such parts it is one: the world size, or the workers of its node."""

    world: int
    slices: dict[str, Slice] = msgspec.field(default_factory=dict)
    values: Any = None
    """The tree of everything that is not a tensor, as the training library encoded it."""

    written_group: str | msgspec.UnsetType = msgspec.field(name="group", default=msgspec.UNSET)
    """Absent for the main group: then the bytes are those of a Resile without groups."""

    @property
    def group(self) -> str:
        """The group whose state it is."""
        return MAIN_GROUP if self.written_group is msgspec.UNSET else self.written_group

    @property
    def name(self) -> str:
        """Unique among the parts of one step on one node, and a file's name."""
        return part_name(self.kind, self.index, self.count)


class Placed(msgspec.Struct, frozen=True):
    """Where a slice's bytes lie, from the part's beginning."""

    slice: Slice
    begin: int
    end: int


class PartLayout(msgspec.Struct, frozen=True):
    """A header as bytes, and where everything lies behind it."""

    header: bytes
    places: dict[str, Placed]
    size: int
    """Of the whole part."""


_described = JsonDecoder[dict[str, msgspec.Raw]](dict[str, msgspec.Raw])
_metadata = JsonDecoder[dict[str, str]](dict[str, str])
_about = JsonDecoder[PartHeader](PartHeader)
_entry = JsonDecoder[TensorEntry](TensorEntry)


def lay_out(header: PartHeader, *, room: int = 0) -> PartLayout:
    """Decide where everything lies. ``room``: the least length of the header, so that a part whose
    values grow a little keeps its tensors where they were."""
    about = msgspec.json.encode(header).decode()
    encoded, entries = encode_header(header.slices, metadata={"resile": about}, room=room)
    places = _places(header, entries, start=len(encoded))
    return PartLayout(encoded, places, _end(places, start=len(encoded)))


def read_header(data: memoryview, *, source: str) -> tuple[PartHeader, PartLayout]:
    """What a part says of itself, from its first bytes (all of them, or at least its header).

    ``source`` names it in errors; raises :class:`PartDamaged`.
    """
    try:
        length = int.from_bytes(data[:LENGTH], "little")
        if not 2 <= length <= LARGEST_HEADER or len(data) < LENGTH + length:
            raise ValueError(f"its header cannot be {length} bytes long")
        raw = bytes(data[: LENGTH + length])
        described = _described.decode(raw[LENGTH:])
        header = _about.decode(_metadata.decode(described.pop("__metadata__"))["resile"])
        entries = {name: _entry.decode(one) for name, one in described.items()}
        start = LENGTH + length
        places = _places(header, entries, start=start)
        if len(places) != len(header.slices):
            raise ValueError("it lacks some of the tensors that it names")
        for name, place in places.items():
            if not place.slice.is_possible:
                raise ValueError(f"{name} has a shape that cannot be")
            if place.begin < start or place.end - place.begin != place.slice.size:
                raise ValueError(f"{name} has another size than it says")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise PartDamaged(f"{source} is not a part of a checkpoint: {error}") from None
    return header, PartLayout(raw, places, _end(places, start=start))


def _places(
    header: PartHeader, entries: Mapping[str, TensorEntry], *, start: int
) -> dict[str, Placed]:
    """Where slices lie in a part whose data begins at ``start``."""
    return {
        name: Placed(header.slices[name], start + begin, start + end)
        for name, (begin, end) in ((name, one.data_offsets) for name, one in entries.items())
    }


def _end(places: Mapping[str, Placed], *, start: int) -> int:
    return max((place.end for place in places.values()), default=start)
