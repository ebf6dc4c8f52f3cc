"""The header of a safetensors file: its tensors, with their types and positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

__all__ = ["ALIGNMENT", "ITEM_SIZES", "LENGTH", "Tensor", "TensorEntry", "encode_header"]

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


class Tensor(Protocol):
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
    tensors: Mapping[str, Tensor], *, metadata: Mapping[str, str], room: int = 0
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
