"""Export a checkpoint's tensors as one plain safetensors file, without torch.

A replicated tensor is stored whole in one replica part. A sharded one is stored as slices in the
rank parts and is assembled row by row. What belongs to a single rank (its random states) is left
out, and so are values that are not tensors.

Tensors are assembled and written one at a time, so that a checkpoint larger than memory can be
exported: the memory needed is that of the largest sharded tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from math import prod

from resile.checkpoint.catalog import Checkpoint, CheckpointCatalog, StoredPart
from resile.checkpoint.errors import NoCheckpoint, PartDamaged
from resile.checkpoint.part import ITEM_SIZES, PartKind, ReadablePart, SlicePosition, encode_header
from resile.checkpoint.storage.base import Storage

__all__ = [
    "Piece",
    "WholeTensor",
    "only_below",
    "open_parts",
    "runs",
    "whole_tensors",
    "write_safetensors",
]


@dataclass(frozen=True)
class Piece:
    """A slice and the part that contains it."""

    part: ReadablePart
    place: SlicePosition

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the slice."""
        return self.place.slice.shape

    @property
    def offsets(self) -> tuple[int, ...]:
        """The position of the slice in the whole tensor."""
        return self.place.slice.offsets or (0,) * len(self.shape)

    def read(self) -> memoryview:
        """The bytes of the slice."""
        return self.part.read(self.place.begin, self.place.end)


@dataclass(frozen=True)
class WholeTensor:
    """A tensor and its pieces, which cover it exactly."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    pieces: tuple[Piece, ...]

    @property
    def size(self) -> int:
        """Size in bytes."""
        return prod(self.shape) * ITEM_SIZES[self.dtype]

    def read(self) -> memoryview:
        """All bytes, in the order of safetensors and torch (row-major)."""
        if len(self.pieces) == 1:
            return self.pieces[0].read()
        whole = memoryview(bytearray(self.size))
        item = ITEM_SIZES[self.dtype]
        for piece in self.pieces:
            data = piece.read()
            for source, target, length in runs(piece.shape, piece.offsets, whole=self.shape):
                first, last = source * item, (source + length) * item
                whole[target * item : (target + length) * item] = data[first:last]
        return whole


def runs(
    shape: tuple[int, ...], offsets: tuple[int, ...], *, whole: tuple[int, ...]
) -> Iterator[tuple[int, int, int]]:
    """The contiguous runs of a slice: offset in the slice, offset in the whole tensor, and number
    of elements."""
    if not prod(shape):
        return
    split = len(shape)
    while split and shape[split - 1] == whole[split - 1]:
        split -= 1
    outer = shape[: max(split - 1, 0)]
    length = prod(shape[len(outer) :])
    strides = [prod(whole[axis + 1 :]) for axis in range(len(whole))]
    start = sum(offset * stride for offset, stride in zip(offsets, strides, strict=True))
    for number, index in enumerate(product(*map(range, outer))):
        at = sum(i * stride for i, stride in zip(index, strides, strict=False))
        yield number * length, start + at, length


def whole_tensors(parts: Iterable[ReadablePart]) -> dict[str, WholeTensor]:
    """All tensors of a checkpoint, by name; raises PartDamaged if one is incomplete."""
    pieces: dict[str, dict[object, Piece]] = {}
    for part in parts:
        for name, place in part.layout.places.items():
            if part.header.kind is PartKind.REPLICA or place.slice.whole is not None:
                piece = Piece(part, place)
                # A slice that several ranks have in common counts once.
                pieces.setdefault(name, {}).setdefault((piece.offsets, piece.shape), piece)
    return {name: _put_together(name, list(pieces[name].values())) for name in sorted(pieces)}


def _whole(place: SlicePosition) -> tuple[int, ...]:
    return place.slice.shape if place.slice.whole is None else place.slice.whole


def _put_together(name: str, pieces: list[Piece]) -> WholeTensor:
    dtype, shape = pieces[0].place.slice.dtype, _whole(pieces[0].place)
    for piece in pieces:
        if (piece.place.slice.dtype, _whole(piece.place)) != (dtype, shape):
            raise PartDamaged(f"the slices of {name} do not belong to one tensor")
    if sum(prod(piece.shape) for piece in pieces) != prod(shape):
        raise PartDamaged(f"the slices of {name} do not cover it: some are missing or overlap")
    return WholeTensor(name, dtype, shape, tuple(piece for piece in pieces if prod(piece.shape)))


PIECE = 8 << 20


@contextmanager
def open_parts(catalog: CheckpointCatalog, checkpoint: Checkpoint) -> Iterator[list[StoredPart]]:
    """Open all parts of a checkpoint for reading."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(StoredPart(catalog.storage, checkpoint, entry))
            for entry in checkpoint.manifest.parts
        ]


def only_below(tensors: dict[str, WholeTensor], name: str) -> dict[str, WholeTensor]:
    """The tensors of one entry of the state (``model``), under their names within it."""
    found = {
        full.removeprefix(f"{name}."): tensor
        for full, tensor in tensors.items()
        if full.startswith(f"{name}.")
    }
    if not found:
        entries = sorted({full.partition(".")[0] for full in tensors})
        raise NoCheckpoint(
            f"the checkpoint has no tensors below '{name}'; it has {', '.join(entries) or 'none'}"
        )
    return found


def write_safetensors(
    tensors: dict[str, WholeTensor],
    *,
    step: int,
    storage: Storage,
    path: str,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Write tensors as one file, which appears when it is complete."""
    # Hugging Face's loaders require "format".
    header, entries = encode_header(tensors, metadata={"format": "pt", "step": str(step)})
    storage.write(path, _chunks(header, [tensors[name] for name in entries], progress))


def _chunks(
    header: bytes, tensors: Iterable[WholeTensor], progress: Callable[[int], None]
) -> Iterator[memoryview]:
    yield memoryview(header)
    for tensor in tensors:
        data = tensor.read()
        for begin in range(0, len(data), PIECE):
            piece = data[begin : begin + PIECE]
            yield piece
            progress(len(piece))
