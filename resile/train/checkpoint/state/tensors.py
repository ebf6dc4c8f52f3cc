"""Tensors as parts store them: element types, and a rank's slice of the whole tensor.

Plain tensors are whole. Of a DTensor each rank has a slice; torch.distributed.checkpoint knows
which one, for any mesh and for uneven and empty shards. A DTensor that is replicated on every rank
is treated as a plain one. torch.distributed.tensor is large: it is never imported here, as a
script that has not imported it has no DTensors.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import torch

from resile.checkpoint.part import Slice
from resile.train.checkpoint.errors import UnsupportedState

__all__ = [
    "Located",
    "Locator",
    "NAMES",
    "TYPES",
    "is_dtensor",
    "is_storable",
]


TYPES: dict[str, torch.dtype] = {
    "F64": torch.float64,
    "I64": torch.int64,
    "U64": torch.uint64,
    "C64": torch.complex64,
    "F32": torch.float32,
    "I32": torch.int32,
    "U32": torch.uint32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I16": torch.int16,
    "U16": torch.uint16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in TYPES.items()}


@dataclass(frozen=True)
class Located:
    """This rank's slice of a tensor."""

    slice: Slice
    everywhere: bool
    """Whether every rank has the same."""


class Locator:
    """Finds slices; cached by shape and placement, as they are needed at every snapshot."""

    def __init__(self, world: int) -> None:
        self._world = world
        self._plain: dict[tuple[Any, ...], Located] = {}
        self._sharded: dict[tuple[Any, ...], tuple[Any, Located | None]] = {}

    def locate(self, tensor: Any, name: str) -> Located | None:
        """Return this rank's slice; None if it has none: a DTensor on other ranks' mesh."""
        if is_dtensor(tensor):
            return self._locate_dtensor(tensor, name)
        key = (tensor.dtype, tensor.shape)
        found = self._plain.get(key)
        if found is None:
            shape = tuple(tensor.shape)
            found = Located(Slice(dtype=NAMES[tensor.dtype], shape=shape), everywhere=True)
            self._plain[key] = found
        return found

    def _locate_dtensor(self, tensor: Any, name: str) -> Located | None:
        mesh = tensor.device_mesh
        key = (id(mesh), tensor.placements, tensor.shape, tensor.dtype)
        if key not in self._sharded:
            # The mesh is kept with the result, so that its id is not reused by another.
            self._sharded[key] = (mesh, self._slice_of(tensor, name))
        return self._sharded[key][1]

    def _slice_of(self, tensor: Any, name: str) -> Located | None:
        if any(placement.is_partial() for placement in tensor.placements):
            raise UnsupportedState(
                f"{name} is a DTensor with partial placement; redistribute it first"
            )
        mesh = tensor.device_mesh
        dtype, whole = NAMES[tensor.dtype], tuple(tensor.shape)
        if all(one.is_replicate() for one in tensor.placements) and mesh.size() == self._world:
            return Located(Slice(dtype=dtype, shape=whole), everywhere=True)
        if mesh.get_coordinate() is None:
            return None
        (chunk,) = tensor.__create_chunk_list__()
        shape = tuple(chunk.sizes)
        if tuple(tensor.to_local().shape) != shape:
            raise UnsupportedState(f"{name} is a DTensor whose local tensor is not its slice")
        offsets = tuple(chunk.offsets)
        return Located(Slice(dtype=dtype, shape=shape, whole=whole, offsets=offsets), False)


def is_dtensor(tensor: Any) -> bool:
    """Return whether it is one slice of a distributed tensor."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def is_storable(tensor: Any) -> bool:
    """Return whether it is a plain block of elements of a dtype that parts support."""
    if is_dtensor(tensor):
        return tensor.dtype in NAMES
    plain = type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
    return plain and tensor.layout is torch.strided and tensor.dtype in NAMES
