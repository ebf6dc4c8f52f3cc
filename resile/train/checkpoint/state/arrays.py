"""numpy values: arrays as tensors where torch has the dtype, as .npy bytes where it has not.

numpy is imported only when a numpy value is met: neither torch nor Resile needs it.
"""

from __future__ import annotations

import io
import sys
from typing import Any

import torch

__all__ = [
    "as_tensor",
    "is_array",
    "is_scalar",
    "read_array",
    "read_scalar",
    "shares_memory",
    "write_array",
    "write_scalar",
]

_SCALARS = "biufcSUmM"
"""numpy's letters for the element kinds that are fully described by their bytes."""


def is_array(value: Any) -> bool:
    """Whether it is exactly an ndarray; a subclass (masked, matrix) is not."""
    return type(value) is sys.modules["numpy"].ndarray


def is_scalar(value: Any) -> bool:
    """Whether it is a numpy scalar: a number, a date or a text."""
    return isinstance(value, sys.modules["numpy"].generic) and value.dtype.kind in _SCALARS


def as_tensor(array: Any) -> Any | None:
    """The same elements as a tensor: over the same memory where it is writable, else a copy.
    None for dtypes that torch does not have."""
    numpy = sys.modules["numpy"]
    usable = array.flags.writeable and array.flags.c_contiguous
    try:
        return torch.from_numpy(array if usable else numpy.array(array, order="C"))
    except (TypeError, ValueError):
        return None


def write_array(array: Any) -> bytes | None:
    """Encode an array in numpy's own format; None if that would need pickle."""
    file = io.BytesIO()
    if array.dtype.hasobject:
        return None
    sys.modules["numpy"].save(file, array, allow_pickle=False)
    return file.getvalue()


def read_array(raw: bytes) -> Any:
    """Decode what :func:`write_array` wrote."""
    import numpy

    return numpy.load(io.BytesIO(raw), allow_pickle=False)


def write_scalar(value: Any) -> tuple[str, bytes]:
    """Return its dtype and its bytes."""
    return value.dtype.str, value.tobytes()


def read_scalar(dtype: str, raw: bytes) -> Any:
    """Decode what :func:`write_scalar` wrote."""
    import numpy

    kind = numpy.dtype(dtype)
    if kind.kind not in _SCALARS:
        raise ValueError(f"{dtype} is not a dtype of plain values")
    if kind.itemsize == 0:
        return kind.type()
    return numpy.frombuffer(raw, kind)[0]


def shares_memory(array: Any, tensor: Any) -> bool:
    """Whether a write to the tensor shows in the array."""
    return bool(sys.modules["numpy"].may_share_memory(array, tensor.numpy()))
