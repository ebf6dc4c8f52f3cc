"""A script's state split into named tensors and a tree of values.

The state is a dictionary that holds, at any depth of dictionaries, lists, tuples and dataclasses:
modules, optimizers, anything with ``state_dict`` and ``load_state_dict``, tensors, arrays and plain
values. A tensor's name is the path to it; one that occurs twice (tied weights) is stored once and
referred to twice in the tree. Objects with ``resile_per_rank = True`` and random number generators
are only listed: their state differs from rank to rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from resile.train.checkpoint.encoding import STATELESS, encode
from resile.train.checkpoint.errors import UnsupportedState
from resile.train.checkpoint.modules import ModuleNames
from resile.train.checkpoint.optimizers import ParameterNames, optimizer_state
from resile.train.checkpoint.rng import Stream, is_generator
from resile.train.checkpoint.script_classes import ScriptClasses, fields_of, is_record
from resile.train.checkpoint.sharding import is_storable
from resile.train.checkpoint.values import Path, named

__all__ = [
    "PER_RANK",
    "Names",
    "StateTree",
    "TensorNames",
    "find_modules",
    "has_state",
    "is_per_rank",
]

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
        self.values = encode(state, keeper=self)

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
            self.per_rank[named(path)] = Stream(value) if is_generator(value) else value
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
        return encode(state, keeper=self, path=path)


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
