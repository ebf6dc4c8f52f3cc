"""Restore of an optimizer's state by parameter names.

Existing state is filled in place. Missing state (Adam before its first step) is created like the
parameter: the same shape, device and placement. The optimizer's own ``load_state_dict`` comes last,
with everything in place, so its hooks run and nothing is copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from resile.train.checkpoint.restore.restore_plan import NewTensors, RestoreOrder, RestorePlan
from resile.train.checkpoint.state.tensors import is_dtensor
from resile.train.checkpoint.state.tree import parameters_of
from resile.train.checkpoint.state.values import Path, entries

__all__ = ["plan_optimizer"]


def plan_optimizer(
    plan: RestorePlan,
    optimizer: Optimizer,
    *,
    names: Sequence[str] | Sequence[int],
    saved: Any,
    path: Path,
) -> None:
    """Add an optimizer to the plan; ``names`` are those of its parameters."""
    parts = entries(saved)
    states = entries(parts.get("state")) if parts else None
    if parts is None or states is None or not isinstance(parts.get("param_groups"), list):
        plan.problem(path, "an optimizer in the state, but something else in the checkpoint")
        return
    resolver = NewTensors(plan, {})
    groups = plan.decode(parts["param_groups"], resolver=resolver, path=(*path, "param_groups"))
    known = [name for group in groups for name in group["params"]]
    if known and isinstance(known[0], str) != isinstance(names[0] if names else "", str):
        # One of the two was saved or is restored without its model: only their order is known.
        names = known if len(known) == len(names) else names
    plan.compare(names, known, (*path, "parameters"))
    parameters = dict(zip(names, parameters_of(optimizer), strict=True))
    numbers = {name: number for number, name in enumerate(names)}
    loaded = {
        "state": {
            numbers[name]: _state_of(
                plan, optimizer, parameters[name], state, (*path, "state", name)
            )
            for name, state in states.items()
            if name in numbers
        },
        "param_groups": _matched(optimizer, groups, names),
    }
    plan.later(RestoreOrder.OPTIMIZER, path, lambda: _load(optimizer, loaded))


def _matched(
    optimizer: Optimizer, groups: list[dict[str, Any]], names: Sequence[Any]
) -> list[dict[str, Any]]:
    """For each live group the saved group with its parameters; the live one if there is none."""
    by_name = {name: group for group in groups for name in group["params"]}
    matched = []
    number = 0
    for index, live in enumerate(optimizer.param_groups):
        count = len(live["params"])
        numbers = range(number, number + count)
        own = next((by_name[names[n]] for n in numbers if names[n] in by_name), None)
        if own is None and not count and index < len(groups):
            own = groups[index]
        matched.append({**(live if own is None else own), "params": list(numbers)})
        number += count
    return matched


def _state_of(
    plan: RestorePlan, optimizer: Optimizer, parameter: nn.Parameter, saved: Any, path: Path
) -> Any:
    live = optimizer.state.get(parameter, {})
    text = tuple(map(str, path))
    return plan.decode(saved, resolver=_StateOf(plan, parameter, live), path=text)


class _StateOf:
    """The tensors of one parameter's state."""

    def __init__(self, plan: RestorePlan, parameter: nn.Parameter, live: Mapping[str, Any]) -> None:
        self._plan = plan
        self._parameter = parameter
        self._live = live

    def tensor(self, name: str, path: Path) -> Any:
        key = path[-1]
        live = self._live.get(key)
        stored = self._plan.sources.stored(name)
        if isinstance(live, torch.Tensor) and (live.dtype, tuple(live.shape)) == (
            stored.dtype,
            stored.shape,
        ):
            self._plan.fill(live, name, path)
            return live
        # torch keeps the count of steps on the CPU, whatever the parameter's device and shape.
        like = None if key == "step" else self._parameter
        fits = like is not None and tuple(like.shape) == stored.shape
        if is_dtensor(self._parameter) and stored.shape and not fits:
            self._plan.problem(
                path, "its shape differs from its parameter's; step the optimizer once before"
            )
        return self._plan.make(name, path, like=like)

    def array(self, name: str, path: Path) -> Any:
        return self._plan.make(name, path).numpy()


def _load(optimizer: Optimizer, loaded: dict[str, Any]) -> None:
    optimizer.load_state_dict(loaded)
    # torch casts state to its parameter's dtype; a saved dtype that differs was intended.
    parameters = parameters_of(optimizer)
    for number, state in loaded["state"].items():
        live = optimizer.state[parameters[number]]
        for key, value in state.items():
            if isinstance(value, torch.Tensor) and live[key].dtype != value.dtype:
                live[key] = value.to(live[key].device)
