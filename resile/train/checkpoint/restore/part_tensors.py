"""The opened parts of one step as one set of whole tensors.

A tensor is stored in one piece (replica parts) or in slices (rank parts); where two ranks stored
the same slice, one of them is used, preferably a local one. A slice in a rank part without a
position in a whole tensor belongs to that rank alone.

Of a remote part (:class:`Prefetchable`) only the header is needed to know its content. Its bytes
are transferred on demand, which may fail: :func:`prefetch` starts the transfer of all parts that
are about to be copied, before the first one is.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch

from resile.checkpoint.errors import NoCheckpoint, PartDamaged
from resile.checkpoint.part import PartKind, ReadablePart, SlicePosition
from resile.train.checkpoint.restore.select_source import missing_parts, replica_count
from resile.train.checkpoint.state.tensors import TYPES

__all__ = ["TensorChunk", "Prefetchable", "Sources", "Stored", "prefetch", "read_elements"]


@runtime_checkable
class Prefetchable(Protocol):
    """A part whose bytes are on another node until they are needed."""

    def prefetch(self) -> None:
        """Start the transfer; raises what :meth:`ReadablePart.read` would raise later."""


@dataclass(frozen=True, eq=False)
class TensorChunk:
    """A piece of a tensor and the position of its bytes."""

    part: ReadablePart
    place: SlicePosition
    offsets: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the piece."""
        return self.place.slice.shape

    def rows(self, begin: int, count: int) -> Any:
        """Return a tensor of some of its rows (the first dimension), over the part's own bytes."""
        shape = self.shape
        row = (self.place.end - self.place.begin) // shape[0]
        start = self.place.begin + begin * row
        return read_elements(
            self.part, start, start + count * row, dtype=self.dtype, shape=(count, *shape[1:])
        )

    def whole(self) -> Any:
        """Return a tensor of all of it, over the part's own bytes."""
        return read_elements(
            self.part, self.place.begin, self.place.end, dtype=self.dtype, shape=self.shape
        )

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of its elements."""
        return TYPES[self.place.slice.dtype]


@dataclass(frozen=True)
class Stored:
    """A whole tensor as it was saved."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    chunks: list[TensorChunk] = field(default_factory=list)

    @property
    def sharded(self) -> bool:
        """Whether it is in several pieces."""
        return len(self.chunks) != 1 or self.chunks[0].shape != self.shape


class Sources:
    """All parts of one step. Raises :class:`NoCheckpoint` if needed parts are missing."""

    def __init__(self, parts: Iterable[ReadablePart]) -> None:
        opened = list(parts)
        steps = sorted({part.header.step for part in opened})
        absent = missing_parts([part.header for part in opened])
        if absent or len(steps) > 1:
            raise NoCheckpoint(
                f"step {', '.join(map(str, steps)) or 'none'} cannot be restored: "
                + (f"{', '.join(absent)} missing" if absent else "these are parts of several steps")
            )
        (self.step,) = steps
        self.ranks = _in_order(opened, PartKind.RANK, opened[0].header.world)
        replicas = replica_count([part.header for part in opened])
        assert replicas is not None
        self.replicas = _in_order(opened, PartKind.REPLICA, replicas)
        self._stored: dict[str, Stored] = {}
        self._seen: set[tuple[str, tuple[int, ...], tuple[int, ...]]] = set()
        parts = (*self.replicas, *self.ranks)
        for part in sorted(parts, key=lambda part: isinstance(part, Prefetchable)):
            for name, place in part.layout.places.items():
                self._add(name, place, part)

    @property
    def values(self) -> Any:
        """The tree of values that is the same on every rank."""
        return self.replicas[0].header.values

    def stored(self, name: str) -> Stored:
        """Return the tensor of a name."""
        try:
            return self._stored[name]
        except KeyError:
            raise PartDamaged(
                f"the checkpoint of step {self.step} refers to the tensor {name}, but no part "
                "contains it: did the ranks save different states?"
            ) from None

    def _add(self, name: str, place: SlicePosition, part: ReadablePart) -> None:
        one = place.slice
        if part.header.kind is PartKind.RANK and one.whole is None:
            return
        offsets = one.offsets or (0,) * len(one.shape)
        whole = one.shape if one.whole is None else one.whole
        known = self._stored.setdefault(name, Stored(TYPES[one.dtype], whole))
        if known.shape != whole or known.dtype != TYPES[one.dtype]:
            raise PartDamaged(f"the shape of {name} in {part.header.name} differs from other parts")
        key = (name, offsets, one.shape)
        if key not in self._seen and (one.size or whole == one.shape):
            self._seen.add(key)
            known.chunks.append(TensorChunk(part, place, offsets))


def _in_order(parts: Sequence[ReadablePart], kind: PartKind, count: int) -> list[ReadablePart]:
    found = {
        part.header.index: part
        for part in reversed(parts)
        if part.header.kind is kind and part.header.count == count
    }
    return [found[index] for index in range(count)]


def prefetch(chunks: Iterable[TensorChunk]) -> None:
    """Start the transfer of all remote parts that contain these chunks."""
    needed = [chunk.part for chunk in chunks if chunk.place.begin < chunk.place.end]
    for part in dict.fromkeys(needed):
        if isinstance(part, Prefetchable):
            part.prefetch()


def read_elements(
    part: ReadablePart, begin: int, end: int, *, dtype: torch.dtype, shape: tuple[int, ...]
) -> Any:
    """Return a tensor over a part's bytes; read-only by convention."""
    if begin == end:
        return torch.empty(shape, dtype=dtype)
    _hear_torch_out()
    return torch.frombuffer(part.read(begin, end), dtype=dtype).view(shape)


@functools.cache
def _hear_torch_out() -> None:
    """Trigger torch's warning about a read-only buffer, shown once per process, with the filter on.
    Parts are never written to; and a filter for each tensor would take longer than reading a small
    one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        torch.frombuffer(bytes(1), dtype=torch.uint8)
