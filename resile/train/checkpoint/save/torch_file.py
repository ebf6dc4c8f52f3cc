"""A checkpoint as one file written by ``torch.save``, nested like the script's state.

The file holds only what ``torch.load(weights_only=True)`` reads: arrays become tensors, and state
per rank (a position in the data) becomes None. It is read back before it is renamed into place, so
that a value torch refuses is found now and not when the file is needed.
"""

from __future__ import annotations

import os
import pickle
import secrets
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from resile.checkpoint.errors import (
    CheckpointError,
    NoCheckpoint,
    NotTrusted,
    PartDamaged,
    StorageError,
)
from resile.checkpoint.export import WholeTensor
from resile.checkpoint.part import PartKind, ReadablePart
from resile.train.checkpoint.state.tensors import TYPES
from resile.train.checkpoint.state.tree import PER_RANK
from resile.train.checkpoint.state.values import decode, entries

__all__ = ["write_torch_file"]


def write_torch_file(
    parts: Sequence[ReadablePart],
    tensors: Mapping[str, WholeTensor],
    *,
    target: Path,
    only: str | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> None:
    """Write the whole state, or ``only`` one entry of it. The state must fit into memory."""
    try:
        tree = _without_per_rank(_values(parts))
    except RecursionError:
        raise PartDamaged("the checkpoint's state is nested too deeply") from None
    if only is not None:
        tree = _entry(tree, only)
    path = () if only is None else (only,)
    try:
        state = decode(tree, resolver=_Tensors(tensors, progress), path=path)
    except NotTrusted as error:
        raise _Refused(str(error).partition(":")[0]) from error
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        _save(state, temporary)
        temporary.replace(target)
    except OSError as error:
        raise StorageError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)


class _Refused(NotTrusted):
    """The state contains something that a plain file cannot hold."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"torch.load(weights_only=True) would refuse the file: {what}. "
            "Export only one entry of the state, such as model."
        )


def _values(parts: Sequence[ReadablePart]) -> Any:
    """The state's tree, which the first worker of a node writes for all."""
    replicas = (part.header for part in parts if part.header.kind is PartKind.REPLICA)
    return next((header.values for header in replicas if header.values is not None), {})


def _save(state: Any, path: Path) -> None:
    try:
        with path.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        torch.load(path, weights_only=True, mmap=True)
    except pickle.UnpicklingError as error:
        raise _Refused(str(error).partition("\n")[0]) from error


def _entry(tree: Any, name: str) -> Any:
    found = entries(tree) or {}
    if name not in found:
        there = ", ".join(map(str, found)) or "none"
        raise NoCheckpoint(f"the checkpoint's state has no entry '{name}'; it has {there}")
    return found[name]


def _without_per_rank(data: Any) -> Any:
    """The tree with None for state per rank."""
    if isinstance(data, dict):
        return (
            None if PER_RANK in data else {key: _without_per_rank(one) for key, one in data.items()}
        )
    return [_without_per_rank(one) for one in data] if isinstance(data, list) else data


class _Tensors:
    """Reads the tree's tensors, each once, however often the tree refers to it."""

    def __init__(self, tensors: Mapping[str, WholeTensor], progress: Callable[[int], None]) -> None:
        self._tensors = tensors
        self._progress = progress
        self._read: dict[str, torch.Tensor] = {}

    def tensor(self, name: str, path: tuple[str, ...]) -> torch.Tensor:
        """Return the tensor as it was saved."""
        if name not in self._tensors:
            raise CheckpointError(f"{'.'.join(path)} refers to {name}, which no part holds")
        if name not in self._read:
            self._read[name] = _as_tensor(self._tensors[name])
            self._progress(self._tensors[name].size)
        return self._read[name]

    def array(self, name: str, path: tuple[str, ...]) -> torch.Tensor:
        """Return an array as a tensor: weights_only reads no arrays."""
        return self.tensor(name, path)


def _as_tensor(whole: WholeTensor) -> torch.Tensor:
    dtype = TYPES[whole.dtype]
    if not whole.size:
        return torch.empty(whole.shape, dtype=dtype)
    with warnings.catch_warnings():
        # torch warns about a read-only buffer; this one is never written to.
        warnings.simplefilter("ignore", UserWarning)
        return torch.frombuffer(whole.read(), dtype=dtype).view(whole.shape)
