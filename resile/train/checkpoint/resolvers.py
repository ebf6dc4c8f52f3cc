"""Sources of tensors for a decoded tree: new ones, the live ones at the same path, or one rank's.

Tensors are returned before they are filled: :class:`~resile.train.checkpoint.draft.Draft` fills
all of them together.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from resile.checkpoint.errors import PartDamaged
from resile.checkpoint.readable_part import ReadablePart
from resile.train.checkpoint import arrays
from resile.train.checkpoint.draft import Draft
from resile.train.checkpoint.dtypes import TYPES
from resile.train.checkpoint.script_classes import fields_of, is_record
from resile.train.checkpoint.sources import read_elements
from resile.train.checkpoint.values import Path

__all__ = ["InPlace", "Made", "OfRank", "tensors_by_path"]


class Made:
    """New tensors, each like the live one at the same path."""

    def __init__(self, plan: Draft, live: Mapping[Path, Any]) -> None:
        self._plan = plan
        self._live = live

    def tensor(self, name: str, path: Path) -> Any:
        return self._plan.make(name, path, like=self._live.get(path))

    def array(self, name: str, path: Path) -> Any:
        return self._plan.make(name, path).numpy()


class InPlace:
    """The live tensors themselves; a new one where the state has no tensor at the path."""

    def __init__(self, plan: Draft, live: Mapping[Path, Any]) -> None:
        self._plan = plan
        self._live = live

    def tensor(self, name: str, path: Path) -> Any:
        live = self._live.get(path)
        if not isinstance(live, torch.Tensor):
            return self._plan.make(name, path)
        self._plan.fill(live, name, path)
        return live

    def array(self, name: str, path: Path) -> Any:
        live = self._live.get(path)
        stored = self._plan.sources.stored(name)
        if live is not None and not isinstance(live, torch.Tensor):
            view = arrays.as_tensor(live)
            fits = view is not None and (view.dtype, tuple(view.shape)) == (
                stored.dtype,
                stored.shape,
            )
            if fits and arrays.shares_memory(live, view):
                self._plan.fill(view, name, path)
                return live
        return self._plan.make(name, path).numpy()


class OfRank:
    """The tensors that belong to one rank alone, read immediately: they are small."""

    def __init__(self, part: ReadablePart) -> None:
        self._part = part

    def tensor(self, name: str, _path: Path) -> Any:
        place = self._part.layout.places.get(name)
        if place is None:
            raise PartDamaged(f"{self._part.header.name} refers to {name}, but does not contain it")
        return read_elements(
            self._part,
            place.begin,
            place.end,
            dtype=TYPES[place.slice.dtype],
            shape=place.slice.shape,
        ).clone()

    def array(self, name: str, path: Path) -> Any:
        return self.tensor(name, path).numpy()


def tensors_by_path(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the tensors and arrays in dictionaries, lists, tuples and dataclasses."""
    if isinstance(value, torch.Tensor) or ("numpy" in sys.modules and arrays.is_array(value)):
        yield path, value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from tensors_by_path(one, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from tensors_by_path(one, (*path, str(index)))
    elif is_record(value):
        yield from tensors_by_path(fields_of(value), path)
