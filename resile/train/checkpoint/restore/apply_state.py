"""Load a saved step into a script's live state, at any world size, without a collective.

The saved tree of values is walked together with the live state. Modules and optimizers are matched
by name; other objects with ``load_state_dict`` get what their ``state_dict`` returned; tensors in
plain dictionaries are filled in place; plain values (a step counter) are replaced in the script's
own dictionary. Random streams come last, so that nothing in between advances them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import nn
from torch.optim import Optimizer

from resile.checkpoint.errors import PartDamaged
from resile.checkpoint.part import ReadablePart
from resile.train.checkpoint.restore.optimizer_state import plan_optimizer
from resile.train.checkpoint.restore.part_tensors import Sources
from resile.train.checkpoint.restore.restore_plan import (
    LiveTensors,
    NewTensors,
    RankTensors,
    RestoreOrder,
    RestorePlan,
    tensors_by_path,
)
from resile.train.checkpoint.state.rng import RandomStream, is_generator, set_random_states
from resile.train.checkpoint.state.script_classes import class_name, fields_of, is_record, put_back
from resile.train.checkpoint.state.tree import PER_RANK, Names, find_modules, has_state, is_per_rank
from resile.train.checkpoint.state.values import Path, Sort, decode, entries, named, record, tagged

__all__ = ["AppliedState", "restore"]


@dataclass(frozen=True)
class AppliedState:
    """The result of a restore."""

    step: int
    world: int
    """The world size that saved it."""

    left_alone: tuple[str, ...]
    """The entries that did not match and were not changed; always empty with ``strict``."""


def restore(
    state: dict[str, Any],
    parts: Iterable[ReadablePart],
    *,
    rank: int = 0,
    strict: bool = True,
    trust: bool = False,
) -> AppliedState:
    """Load all of a step as rank ``rank``. ``parts``: all parts of the step.

    Raises NoCheckpoint if parts are missing, StateMismatch if the state does not match (then
    nothing is changed), NotTrusted for values that need ``trust``, PartDamaged for invalid ones.
    """
    sources = Sources(parts)
    plan = RestorePlan(sources, state, strict=strict, trust=trust)
    random = _random_states(sources, rank)
    _Restoration(plan, state, rank).plan_all(state)
    plan.carry_out()
    if random is not None:
        set_random_states(random)
    return AppliedState(sources.step, len(sources.ranks), tuple(plan.problems))


def _random_states(sources: Sources, rank: int) -> dict[str, Any] | None:
    """The states of the same rank; a rank that did not exist before keeps its own."""
    if rank >= len(sources.ranks):
        return None
    part = sources.ranks[rank]
    found: dict[str, Any] = decode(_values_of(part, "random"), resolver=RankTensors(part))
    return found


def _values_of(part: ReadablePart, entry: str) -> Any:
    """Return an entry of a rank part's values."""
    values = part.header.values
    if not isinstance(values, dict) or not isinstance(values.get(entry), dict):
        raise PartDamaged(f"{part.header.name} has no {entry!r} among its values")
    return values[entry]


class _Restoration:
    """Walks the live state and the saved tree together."""

    def __init__(self, plan: RestorePlan, state: dict[str, Any], rank: int) -> None:
        self._plan = plan
        self._rank = rank
        self._names = Names()
        self._modules = dict(find_modules(state))

    def plan_all(self, state: dict[str, Any]) -> None:
        saved = self._plan.sources.values
        if self._entries(saved) is None:
            raise PartDamaged("the checkpoint has no tree of values")
        self._container(state, saved, ())

    def _container(self, live: Any, saved: Any, path: Path) -> None:
        """A dictionary or list that contains objects: both sides must have the same keys."""
        found = self._entries(saved) if isinstance(live, dict) else _elements(saved)
        if found is None:
            self._plan.problem(
                path, f"a {type(live).__name__} in the state, but something else in the checkpoint"
            )
            return
        ours = live if isinstance(live, dict) else dict(enumerate(live))
        self._plan.compare(ours, found, path)
        for key, value in ours.items():
            if key in found:
                with self._plan.leaving_alone():
                    self._one(live, key, value=value, saved=found[key], path=(*path, str(key)))

    def _one(self, container: Any, key: Any, *, value: Any, saved: Any, path: Path) -> None:
        if is_per_rank(value):
            self._per_rank(RandomStream(value) if is_generator(value) else value, saved, path)
        elif isinstance(value, nn.Module):
            self._module(value, saved, path)
        elif isinstance(value, Optimizer):
            names = self._names.parameters.of(value, self._modules)
            plan_optimizer(self._plan, value, names=names, saved=saved, path=path)
        elif has_state(value):
            self._object(value, saved, path)
        elif isinstance(value, tuple) and _has_objects(value):
            items = list(value)
            self._container(items, saved, path)
            kind = type(value)  # may be a named tuple
            self._set_later(container, key, lambda: tuple.__new__(kind, items), path)
        elif is_record(value) and _has_objects(value):
            self._record(container, key, value=value, saved=saved, path=path)
        elif _has_objects(value):
            self._container(value, saved, path)
        else:
            self._plain(container, key, value=value, saved=saved, path=path)

    def _record(self, container: Any, key: Any, *, value: Any, saved: Any, path: Path) -> None:
        """A dataclass that contains objects: both sides must have the same fields."""
        kind = type(value)
        found = record(saved)
        if found is None or self._plan.builder.kind(found[0], Sort.RECORD, path) is not kind:
            self._plan.problem(
                path, f"a {class_name(kind)} in the state, but something else in the checkpoint"
            )
            return
        fields = fields_of(value)
        self._container(fields, found[1], path)
        self._set_later(container, key, lambda: put_back(value, fields), path)

    def _set_later(self, container: Any, key: Any, make: Callable[[], Any], path: Path) -> None:
        self._plan.later(RestoreOrder.VALUE, path, lambda: container.__setitem__(key, make()))

    def _entries(self, saved: Any) -> dict[Any, Any] | None:
        return entries(saved, builder=self._plan.builder)

    def _module(self, module: nn.Module, saved: Any, path: Path) -> None:
        found = entries(saved)
        if found is None:
            self._plan.problem(path, "a module in the state, but something else in the checkpoint")
            return
        live = self._names.modules.tensors(module)
        self._plan.compare(live, found, path)
        loaded = {}
        for name, (raw, value) in live.items():
            loaded[raw] = value
            if name in found:
                one, where = found[name], (*path, name)
                if tagged(one) == "$tensor" and hasattr(value, "dtype"):
                    self._plan.fill(value, one["$tensor"], where)
                else:
                    loaded[raw] = self._decode_new(one, {}, where)
        self._plan.later(RestoreOrder.MODULE, path, partial(module.load_state_dict, loaded))

    def _object(self, value: Any, saved: Any, path: Path) -> None:
        if tagged(saved) == PER_RANK:
            self._plan.problem(path, "was saved per rank; set resile_per_rank = True on it")
            return
        live = dict(tensors_by_path(value.state_dict(), path))
        state = self._decode_new(saved, live, path)
        self._plan.later(RestoreOrder.OBJECT, path, partial(value.load_state_dict, state))

    def _per_rank(self, value: Any, saved: Any, path: Path) -> None:
        """Load all ranks' states if the object supports it; else the one of the same rank."""
        ranks = self._plan.sources.ranks
        if tagged(saved) != PER_RANK:
            self._plan.problem(path, "per rank in the state, but saved once for all ranks")
            return
        if hasattr(value, "load_rank_states"):
            states = [self._decode_of_rank(part, named(path)) for part in ranks]
            self._plan.later(RestoreOrder.OBJECT, path, partial(value.load_rank_states, states))
        elif self._rank < len(ranks):
            state = self._decode_of_rank(ranks[self._rank], named(path))
            self._plan.later(RestoreOrder.OBJECT, path, partial(value.load_state_dict, state))

    def _decode_of_rank(self, part: ReadablePart, path: str) -> Any:
        objects = _values_of(part, "objects")
        if path not in objects:
            raise PartDamaged(f"{part.header.name} has no state of {path}")
        return self._plan.decode(objects[path], resolver=RankTensors(part), path=(path,))

    def _plain(self, container: Any, key: Any, *, value: Any, saved: Any, path: Path) -> None:
        live = dict(tensors_by_path(value, path))
        new = self._plan.decode(saved, resolver=LiveTensors(self._plan, live), path=path)
        if isinstance(value, dict) and isinstance(new, dict):
            self._plan.later(RestoreOrder.VALUE, path, partial(_refill_dict, value, new))
        elif isinstance(value, list) and isinstance(new, list):
            self._plan.later(RestoreOrder.VALUE, path, partial(value.__setitem__, slice(None), new))
        elif is_record(value) and type(new) is type(value):
            self._set_later(container, key, lambda: put_back(value, fields_of(new)), path)
        else:
            self._set_later(container, key, lambda: new, path)

    def _decode_new(self, saved: Any, live: dict[Path, Any], path: Path) -> Any:
        return self._plan.decode(saved, resolver=NewTensors(self._plan, live), path=path)


def _elements(saved: Any) -> dict[int, Any] | None:
    items = saved
    if tagged(saved) == "$tuple":
        items = saved["$tuple"]
    elif tagged(saved) == Sort.NAMED.value:
        items = saved[Sort.NAMED.value][-1]
    return dict(enumerate(items)) if isinstance(items, list) else None


def _has_objects(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_objects(one) for one in value.values())
    if isinstance(value, (list, tuple)):
        return any(_has_objects(one) for one in value)
    if has_state(value) or is_per_rank(value):
        return True
    return is_record(value) and _has_objects(fields_of(value))


def _refill_dict(live: dict[Any, Any], new: dict[Any, Any]) -> None:
    live.clear()
    live.update(new)
