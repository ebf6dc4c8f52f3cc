"""An optimizer's state keyed by parameter names.

The form is that of torch.distributed.checkpoint's ``get_optimizer_state_dict``. That function
itself is not used: it steps an optimizer that has no state yet, which changes what Adam does next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn
from torch.optim import Optimizer

from resile.train.checkpoint.modules import ModuleNames

__all__ = ["ParameterNames", "optimizer_state", "parameters_of"]

_Known = tuple[list[nn.Parameter], list[nn.Module], Sequence[str] | Sequence[int]]


def parameters_of(optimizer: Optimizer) -> list[nn.Parameter]:
    """Return its parameters in the order in which its ``state_dict`` numbers them."""
    return list(chain.from_iterable(group["params"] for group in optimizer.param_groups))


class ParameterNames:
    """The names of optimizers' parameters; cached while optimizer and modules stay the same."""

    def __init__(self, modules: ModuleNames) -> None:
        self._modules = modules
        self._known: WeakKeyDictionary[Optimizer, _Known] = WeakKeyDictionary()

    def of(
        self, optimizer: Optimizer, modules: Mapping[str, nn.Module]
    ) -> Sequence[str] | Sequence[int]:
        """Return the name of each parameter in the module that has them all; prefixed with the
        module's own name if several have them together; numbers if some are in none."""
        parameters = parameters_of(optimizer)
        owners = list(modules.values())
        known = self._known.get(optimizer)
        if known is None or not (_same(known[0], parameters) and _same(known[1], owners)):
            known = (parameters, owners, self._find(parameters, modules))
            self._known[optimizer] = known
        return known[2]

    def _find(
        self, parameters: list[nn.Parameter], modules: Mapping[str, nn.Module]
    ) -> Sequence[str] | Sequence[int]:
        wanted = [id(parameter) for parameter in parameters]
        together: dict[int, str] = {}
        for where, module in modules.items():
            own = dict(self._modules.parameters(module))
            if all(one in own for one in wanted):
                return [own[one] for one in wanted]
            for one, name in own.items():
                together.setdefault(one, f"{where}.{name}")
        if all(one in together for one in wanted):
            return [together[one] for one in wanted]
        return range(len(wanted))


def _same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def optimizer_state(optimizer: Optimizer, names: Sequence[str] | Sequence[int]) -> dict[str, Any]:
    """Return its ``state_dict`` with names in place of numbers."""
    numbered = optimizer.state_dict()
    by_number = dict(enumerate(names))
    return {
        **numbered,
        "state": {by_number.get(key, key): one for key, one in numbered["state"].items()},
        "param_groups": [
            {**group, "params": [by_number[number] for number in group["params"]]}
            for group in numbered["param_groups"]
        ],
    }
