"""A script's state split into named tensors and a tree of values.

The state is a dictionary that holds, at any depth of dictionaries, lists, tuples and dataclasses:
modules, optimizers, anything with ``state_dict`` and ``load_state_dict``, tensors, arrays and plain
values. A tensor's name is the path to it; one that occurs twice (tied weights) is stored once and
referred to twice in the tree. Objects with ``resile_per_rank = True`` and random number generators
are only listed: their state differs from rank to rank.

Names and form are those of torch.distributed.checkpoint's ``get_model_state_dict`` (no ``module.``
of DDP, no ``_orig_mod.`` of torch.compile) and ``get_optimizer_state_dict`` (keyed by parameter
names). Neither is used: the first detaches the tensors, but an optimizer's state is named by the
identity of the parameters; the second steps an optimizer that has no state yet, which changes what
Adam does next.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from resile.train.checkpoint.errors import UnsupportedState
from resile.train.checkpoint.state.encoding import STATELESS, encode
from resile.train.checkpoint.state.rng import RandomStream, is_generator
from resile.train.checkpoint.state.script_classes import ScriptClasses, fields_of, is_record
from resile.train.checkpoint.state.tensors import is_storable
from resile.train.checkpoint.state.values import Path, named

__all__ = [
    "ModuleNames",
    "Names",
    "PER_RANK",
    "ParameterNames",
    "StateTree",
    "TensorNames",
    "find_modules",
    "has_state",
    "is_per_rank",
    "optimizer_state",
    "parameters_of",
]


_WRAPPERS = {
    "module": "DistributedDataParallel",
    "_orig_mod": "OptimizedModule",
    "_checkpoint_wrapped_module": "CheckpointWrapper",
}
"""The attribute in which a wrapper holds its module, and the wrapper's class."""


class ModuleNames:
    """The names of modules' tensors; cached, as they are needed at every snapshot."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[nn.Module, dict[str, str]] = WeakKeyDictionary()

    def tensors(self, module: nn.Module) -> dict[str, tuple[str, Any]]:
        """Map names without wrappers to the name for ``load_state_dict`` and the live tensor."""
        names = self._names(module)
        found = {}
        for raw, value in module.state_dict(keep_vars=True).items():
            name = names.get(raw)
            if name is None:
                name = names[raw] = _without_wrappers(module, raw)
            found[name] = (raw, value)
        return found

    def parameters(self, module: nn.Module) -> Iterator[tuple[int, str]]:
        """Yield each parameter's id and name; for a shared parameter the first name."""
        for raw, parameter in module.named_parameters():
            yield id(parameter), _without_wrappers(module, raw)

    def _names(self, module: nn.Module) -> dict[str, str]:
        if module not in self._known:
            _refuse_flat_parameters(module.modules())
            self._known[module] = {}
        return self._known[module]


def _without_wrappers(module: nn.Module, raw: str) -> str:
    if not any(f"{attribute}." in raw for attribute in _WRAPPERS):
        return raw
    kept = []
    here: Any = module
    for word in raw.split("."):
        wrapper = _WRAPPERS.get(word)
        if wrapper is None or wrapper not in {kind.__name__ for kind in type(here).__mro__}:
            kept.append(word)
        here = getattr(here, word, None)
    return ".".join(kept)


def _refuse_flat_parameters(modules: Iterable[nn.Module]) -> None:
    fsdp = sys.modules.get("torch.distributed.fsdp")
    if fsdp is not None and any(isinstance(m, fsdp.FullyShardedDataParallel) for m in modules):
        raise UnsupportedState(
            "FullyShardedDataParallel (FSDP1) is not supported; "
            "shard the model with torch.distributed.fsdp.fully_shard instead"
        )


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


PER_RANK = "$per_rank"


class Names:
    """Caches of the names of a state's tensors and parameters."""

    def __init__(self) -> None:
        self.modules = ModuleNames()
        self.parameters = ParameterNames(self.modules)


class TensorNames:
    """Assigns one name to each tensor; the same for the same state, on every rank."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self.tensors: dict[str, Any] = {}
        self._by_identity: dict[int, str] = {}
        self._taken = {"__metadata__", *taken}  # the first is safetensors' own word

    def name(self, tensor: Any, path: Path) -> str:
        """Return its name, assigning one if it has none."""
        known = self._by_identity.get(id(tensor))
        if known is not None:
            return known
        plain = ".".join(path).encode("utf-8", "backslashreplace").decode()
        name, number = plain, 1
        while name in self._taken:
            number += 1
            name = f"{plain}#{number}"
        self._taken.add(name)
        self._by_identity[id(tensor)] = name
        self.tensors[name] = tensor
        return name


class StateTree:
    """A split state: ``values``, ``tensors`` by name, and the ``per_rank`` objects by path."""

    def __init__(
        self, state: Mapping[str, Any], names: Names, *, classes: ScriptClasses, trust: bool = False
    ) -> None:
        if not isinstance(state, dict):
            raise UnsupportedState(
                "the state must be a dictionary, such as {'model': model, 'optimizer': optimizer}, "
                f"not a {type(state).__name__}"
            )
        self.per_rank: dict[str, Any] = {}
        self.trust = trust
        self.classes = classes
        self._names = names
        self._tensors = TensorNames()
        self._modules = dict(find_modules(state))
        self.values = encode(state, collector=self)

    @property
    def tensors(self) -> dict[str, Any]:
        """The live tensors, by name."""
        return self._tensors.tensors

    def tensor(self, tensor: Any, path: Path) -> str | None:
        """Called while encoding."""
        if is_lazy(tensor):
            raise UnsupportedState(f"{named(path)} has no shape yet: run one forward before saving")
        if tensor.device.type == "meta":
            raise UnsupportedState(f"{named(path)} is on the meta device: it has no elements")
        return self._tensors.name(tensor, path) if is_storable(tensor) else None

    def object(self, value: Any, path: Path) -> Any:
        """Called while encoding."""
        if is_per_rank(value):
            self.per_rank[named(path)] = RandomStream(value) if is_generator(value) else value
            return {PER_RANK: None}
        if isinstance(value, nn.Module):
            found = self._names.modules.tensors(value)
            state: Any = {name: tensor for name, (_, tensor) in found.items()}
        elif isinstance(value, Optimizer):
            state = optimizer_state(value, self._names.parameters.of(value, self._modules))
        elif has_state(value):
            state = value.state_dict()
        else:
            return STATELESS
        return encode(state, collector=self, path=path)


def find_modules(value: Any, path: Path = ()) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules in a state, with their paths."""
    if isinstance(value, nn.Module):
        yield named(path), value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from find_modules(one, (*path, str(key)))
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from find_modules(one, (*path, str(index)))
    elif is_record(value) and not has_state(value):
        yield from find_modules(fields_of(value), path)


def has_state(value: Any) -> bool:
    """Return whether it has ``state_dict`` and ``load_state_dict``."""
    return (
        not isinstance(value, type)
        and callable(getattr(value, "state_dict", None))
        and callable(getattr(value, "load_state_dict", None))
    )


def is_per_rank(value: Any) -> bool:
    """Return whether its state differs from rank to rank: it is marked so, or is a generator."""
    says = not isinstance(value, type) and getattr(value, "resile_per_rank", False) is True
    return says or is_generator(value)
