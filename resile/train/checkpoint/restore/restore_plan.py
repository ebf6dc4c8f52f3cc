"""The plan of a restore, made before any state is changed, and the tensors it fills.

Every difference between the state and the checkpoint is recorded first. Only when there is none
(or with ``strict=False``), and when the transfer of all needed bytes has started, are elements
copied, straight into the live tensors; objects get their state after that. A checkpoint that does
not match, or a part that is gone, therefore changes nothing. A transfer that fails in the middle
leaves tensors half filled: then another step fills all of them, or training does not start.

Resolvers provide the tensors of a decoded tree before they are filled: new ones, the live ones at
the same path, or one rank's own.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parameter import is_lazy

from resile.checkpoint.errors import CheckpointError, PartDamaged
from resile.checkpoint.part import ReadablePart
from resile.train.checkpoint.errors import StateMismatch
from resile.train.checkpoint.restore.part_tensors import (
    Sources,
    Stored,
    TensorChunk,
    prefetch,
    read_elements,
)
from resile.train.checkpoint.state import arrays
from resile.train.checkpoint.state.script_classes import Rebuilding, fields_of, is_record
from resile.train.checkpoint.state.tensors import TYPES, is_dtensor
from resile.train.checkpoint.state.values import Path, Resolver, decode, named

if TYPE_CHECKING:
    from resile.train.checkpoint.restore.resharding import Resharding

__all__ = [
    "LiveTensors",
    "NewTensors",
    "RankTensors",
    "RestoreOrder",
    "RestorePlan",
    "tensors_by_path",
]


class RestoreOrder(IntEnum):
    """The order in which objects get their state. Loading a scheduler may set the optimizer's
    learning rates, so optimizers come after other objects."""

    MODULE = 0
    OBJECT = 1
    OPTIMIZER = 2
    VALUE = 3


class RestorePlan:
    """The tensors to fill, the actions to run afterwards, and the differences found."""

    def __init__(
        self, sources: Sources, state: dict[str, Any], *, strict: bool, trust: bool
    ) -> None:
        self.sources = sources
        self.builder = Rebuilding(state, self.compare)
        self.strict = strict
        self.trust = trust
        self.problems: list[str] = []
        self._targets: dict[str, tuple[Stored, Any]] = {}
        self._filled: dict[int, tuple[str, str]] = {}
        self._actions: list[tuple[RestoreOrder, str, Callable[[], object]]] = []

    def problem(self, path: Path, what: str) -> None:
        """Record a difference."""
        self.problems.append(f"{named(path)}: {what}")

    def compare(self, live: Iterable[Any], saved: Iterable[Any], path: Path) -> None:
        """Record the keys that only one side has."""
        ours, theirs = dict.fromkeys(live), dict.fromkeys(saved)
        for key in ours:
            if key not in theirs:
                self.problem((*path, str(key)), "in the state, but not in the checkpoint")
        for key in theirs:
            if key not in ours:
                self.problem((*path, str(key)), "in the checkpoint, but not in the state")

    def decode(self, saved: Any, *, resolver: Resolver, path: Path) -> Any:
        """Decode a value; raises StateMismatch if the state cannot hold it."""
        return decode(saved, resolver=resolver, path=path, trust=self.trust, builder=self.builder)

    @contextlib.contextmanager
    def leaving_alone(self) -> Iterator[None]:
        """Skip the block for a value that does not match, and record its problem."""
        try:
            yield
        except StateMismatch as error:
            self.problems += error.problems

    def fill(self, target: Any, name: str, path: Path) -> bool:
        """Plan to fill a live tensor; False, with a recorded problem, if it does not match."""
        stored = self.sources.stored(name)
        trouble = _difference(target, stored)
        earlier = self._filled.get(id(target))
        if trouble is None and earlier is not None and earlier[0] != name:
            trouble = f"one tensor with {earlier[1]} in the state, but two in the checkpoint"
        if trouble is not None:
            self.problem(path, trouble)
            return False
        if earlier is None:
            self._filled[id(target)] = (name, named(path))
            self._targets[f"{named(path)}#{len(self._targets)}"] = (stored, target)
        return True

    def make(self, name: str, path: Path, *, like: Any = None) -> Any:
        """Return a new tensor that will be filled: on the device and with the placement of
        ``like``, if that has the same shape; else in one piece on the CPU."""
        stored = self.sources.stored(name)
        if isinstance(like, torch.Tensor) and tuple(like.shape) == stored.shape:
            made = torch.empty_like(like, dtype=stored.dtype, requires_grad=False)
        else:
            made = torch.empty(stored.shape, dtype=stored.dtype)
        self.fill(made, name, path)
        return made

    def later(self, turn: RestoreOrder, path: Path, action: Callable[[], object]) -> None:
        """Plan an action for when all tensors are filled."""
        self._actions.append((turn, named(path), action))

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def carry_out(self) -> None:
        """Fill all tensors, then run all actions; raises StateMismatch, with nothing changed, if
        something does not match and ``strict`` is set."""
        if self.problems and self.strict:
            raise StateMismatch(self.problems)
        self._read()
        for _, path, action in sorted(self._actions, key=lambda one: one[0]):
            try:
                action()
            except CheckpointError:
                raise
            except Exception as error:
                raise StateMismatch([f"{path}: {error}"]) from error

    def _read(self) -> None:
        whole: list[tuple[TensorChunk, Any]] = []
        sharded: dict[str, tuple[Stored, Any]] = {}
        for key, (stored, target) in self._targets.items():
            if stored.sharded or is_dtensor(target):
                sharded[key] = (stored, target)
            else:
                whole.append((stored.chunks[0], target))
        resharding = _resharding(sharded) if sharded else None
        prefetch(chunk for chunk, _ in whole)
        if resharding is not None:
            prefetch(resharding.chunks)
        # In the order of their bytes, which may still be arriving.
        for chunk, target in sorted(whole, key=lambda one: one[0].place.begin):
            target.detach().copy_(chunk.whole())
        if resharding is not None:
            resharding.carry_out()


def _resharding(wanted: dict[str, tuple[Stored, Any]]) -> Resharding:
    from resile.train.checkpoint.restore.resharding import Resharding

    return Resharding(
        {key: stored for key, (stored, _) in wanted.items()},
        {key: target for key, (_, target) in wanted.items()},
    )


def _difference(target: Any, stored: Stored) -> str | None:
    if is_lazy(target):
        return "has no shape yet; run one forward before restoring"
    if target.device.type == "meta":
        return "is on the meta device; give the model memory (to_empty) before restoring"
    if tuple(target.shape) != stored.shape:
        return f"shape {list(target.shape)} in the state, {list(stored.shape)} in the checkpoint"
    if target.dtype != stored.dtype:
        return f"{target.dtype} in the state, {stored.dtype} in the checkpoint"
    if _shares_elements(target.to_local() if is_dtensor(target) else target):
        return (
            "several of its elements share memory (an expanded tensor), so it cannot be filled; "
            "put a .clone() of it into the state"
        )
    return None


def _shares_elements(target: Any) -> bool:
    """Whether writing one element would change another."""
    if target.layout is not torch.strided or target.is_contiguous():
        return False
    reach = 0
    """The last element that the smaller strides reach; a larger stride must go beyond it."""
    for extent, stride in sorted(zip(target.shape, target.stride(), strict=True), key=_by_stride):
        if extent > 1:
            if stride <= reach:
                return True
            reach += (extent - 1) * stride
    return False


def _by_stride(one: tuple[int, int]) -> int:
    return one[1]


class NewTensors:
    """New tensors, each like the live one at the same path."""

    def __init__(self, plan: RestorePlan, live: Mapping[Path, Any]) -> None:
        self._plan = plan
        self._live = live

    def tensor(self, name: str, path: Path) -> Any:
        return self._plan.make(name, path, like=self._live.get(path))

    def array(self, name: str, path: Path) -> Any:
        return self._plan.make(name, path).numpy()


class LiveTensors:
    """The live tensors themselves; a new one where the state has no tensor at the path."""

    def __init__(self, plan: RestorePlan, live: Mapping[Path, Any]) -> None:
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


class RankTensors:
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
