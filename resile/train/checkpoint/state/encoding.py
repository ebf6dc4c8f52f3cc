"""Encoder of a state as JSON data, the counterpart of :mod:`resile.train.checkpoint.state.values`.

Types are compared exactly, not by ``isinstance``: a subclass may carry more than its base, so it is
treated as a type of its own. Values that cannot be read back without ``trust`` are refused when
they are written: else the error would only appear when the checkpoint is needed.
"""

from __future__ import annotations

import base64
import io
import math
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from enum import Enum
from types import SimpleNamespace
from typing import Any, Final, Protocol

import torch

from resile.train.checkpoint.errors import UnsupportedState
from resile.train.checkpoint.state import arrays
from resile.train.checkpoint.state.script_classes import (
    ScriptClasses,
    check_whole,
    class_name,
    fields_of,
    member_names,
    sort_of,
)
from resile.train.checkpoint.state.standard_values import WRITERS, factory_name
from resile.train.checkpoint.state.values import Path, Sort, named

__all__ = ["STATELESS", "TensorCollector", "encode"]

DEEPEST = 200
"""JSON readers fail somewhere beyond this; a state this deep most likely contains itself."""

STATELESS: Final = object()
"""Marks a value that is not an object with its own state."""

_INT64 = 1 << 63
_untrusted: set[type] = set()


class TensorCollector(Protocol):
    """Collects tensors while a state is encoded, and encodes objects."""

    trust: bool
    """Whether to write values that can only be read back with ``trust=True``."""

    classes: ScriptClasses
    """The script's own classes whose values can be read back."""

    def tensor(self, tensor: Any, path: Path, /) -> str | None:
        """Collect a tensor; returns its name, or None if it cannot be stored as a tensor."""

    def object(self, value: Any, path: Path, /) -> Any:
        """Return an object's encoded state; :data:`STATELESS` if it has none."""


def encode(value: Any, *, collector: TensorCollector, path: Path = ()) -> Any:
    """Return ``value`` as JSON data. Raises :class:`UnsupportedState` if it cannot be written."""
    kind = type(value)
    simple = _SIMPLE.get(kind)
    if simple is not None:
        return simple(value)
    standard = WRITERS.get(kind)
    if standard is not None:
        return _write_standard(value, standard, collector, path)
    if len(path) > DEEPEST:
        raise UnsupportedState(f"{'.'.join(path[:6])}… is nested too deeply, or contains itself")
    nested = _NESTED.get(kind)
    if nested is not None:
        return nested(value, collector, path)
    if isinstance(value, torch.Tensor):
        name = collector.tensor(value, path)
        return _write_other(value, collector, path) if name is None else {"$tensor": name}
    found = collector.object(value, path)
    if found is not STATELESS:
        return found
    if "numpy" in sys.modules and arrays.is_array(value):
        return _write_array(value, collector, path)
    if "numpy" in sys.modules and arrays.is_scalar(value):
        dtype, raw = arrays.write_scalar(value)
        return {"$numpy": [dtype, _text(raw)]}
    if collector.classes.has(kind):
        return _write_own(value, collector, path)
    return _write_other(value, collector, path)


def _write_standard(
    value: Any, write: Callable[[Any], Any], collector: TensorCollector, path: Path
) -> Any:
    try:
        return write(value)
    except TypeError:  # a time zone of a type that is not the standard library's
        return _write_other(value, collector, path)


def _write_int(value: int) -> Any:
    return value if -_INT64 <= value < _INT64 else {"$int": str(value)}


def _write_float(value: float) -> Any:
    return value if math.isfinite(value) else {"$float": repr(value)}


def _write_str(value: str) -> Any:
    return value if _is_text(value) else {"$str": _text(value.encode("utf-8", "surrogatepass"))}


def _write_items(value: Any, collector: TensorCollector, path: Path) -> list[Any]:
    if set(map(type, value)) == {int} and -_INT64 <= min(value) <= max(value) < _INT64:
        return list(value)  # a random state has hundreds
    return [
        encode(one, collector=collector, path=(*path, str(index)))
        for index, one in enumerate(value)
    ]


def _items_writer(tag: str) -> Callable[[Any, TensorCollector, Path], Any]:
    return lambda value, collector, path: {tag: _write_items(value, collector, path)}


def _write_dict(value: dict[Any, Any], collector: TensorCollector, path: Path) -> Any:
    if all(type(key) is str and key[:1] != "$" and _is_text(key) for key in value):
        return _write_values(value, collector, path)
    return {"$dict": _write_pairs(value, collector, path)}


def _write_values(value: dict[str, Any], collector: TensorCollector, path: Path) -> dict[str, Any]:
    return {key: encode(one, collector=collector, path=(*path, key)) for key, one in value.items()}


def _write_ordered(value: OrderedDict[Any, Any], collector: TensorCollector, path: Path) -> Any:
    return {"$ordered": _write_pairs(value, collector, path)}


def _write_pairs(value: dict[Any, Any], collector: TensorCollector, path: Path) -> list[list[Any]]:
    keys = _Keys(collector.classes)
    return [
        [
            encode(key, collector=keys, path=path),
            encode(one, collector=collector, path=(*path, str(key))),
        ]
        for key, one in value.items()
    ]


def _write_array(value: Any, collector: TensorCollector, path: Path) -> Any:
    tensor = arrays.as_tensor(value)
    name = None if tensor is None else collector.tensor(tensor, path)
    if name is not None:
        return {"$array": name}
    raw = arrays.write_array(value)
    return _write_other(value, collector, path) if raw is None else {"$npy": _text(raw)}


def _write_deque(value: deque[Any], collector: TensorCollector, path: Path) -> Any:
    return {"$deque": [_write_items(value, collector, path), value.maxlen]}


def _write_defaultdict(value: defaultdict[Any, Any], collector: TensorCollector, path: Path) -> Any:
    try:
        factory = factory_name(value.default_factory)
    except KeyError:
        return _write_other(value, collector, path)
    return {"$defaultdict": [factory, _write_pairs(value, collector, path)]}


def _write_own(value: Any, collector: TensorCollector, path: Path) -> Any:
    """A value of one of the script's classes: the class's name and the value's fields."""
    name = class_name(type(value))
    if isinstance(value, Enum):
        members = member_names(value)
        if members is None:  # bits that no flag of the class has
            return _write_other(value, collector, path)
        return {Sort.MEMBER.value: [name, members]}
    check_whole(value, path)
    if isinstance(value, tuple):
        # By index, as in any other tuple: the same tensors have the same names.
        kind: Any = type(value)
        return {Sort.NAMED.value: [name, list(kind._fields), _write_items(value, collector, path)]}
    return {Sort.RECORD.value: [name, _write_values(fields_of(value), collector, path)]}


def _write_other(value: Any, collector: TensorCollector, path: Path) -> Any:
    """Write with ``torch.save``, if torch reads it back with weights_only, or with ``trust``."""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    instead = f"{_instead(value, collector.classes)}, or give it state_dict and load_state_dict"
    file = io.BytesIO()
    try:
        torch.save(value, file)
    except Exception as error:
        raise UnsupportedState(
            f"{named(path)} is a {kind}, which cannot be saved ({error}). {instead}"
        ) from error
    if type(value) not in _untrusted:
        try:
            torch.load(io.BytesIO(file.getvalue()), weights_only=True)
        except Exception:
            _untrusted.add(type(value))
    if type(value) in _untrusted and not collector.trust:
        raise UnsupportedState(
            f"{named(path)} is a {kind}, which could only be restored by unpickling. {instead}. If "
            "everyone with write access to the storage may run code in the workers, use "
            "Checkpointer(..., trust=True)"
        )
    return {"$torch": [kind, _text(file.getvalue())]}


def _instead(value: Any, classes: ScriptClasses) -> str:
    """The suggested alternative for kinds of values that are common in states."""
    sort = sort_of(type(value))
    if sort is not None:
        unknown = classes.of_a_state and not classes.has(type(value))
        return f"{_UNKNOWN if unknown else ''}Save {_ORDINARY[sort]}"
    if isinstance(value, defaultdict):
        return "Save dict(...) of it"
    return "Save what it is made from"


_UNKNOWN = (
    "The state given to restore holds no value of that class, so a new worker would not know it: "
    "put one into that state, anywhere in it. Or: "
)

_ORDINARY = {
    Sort.MEMBER: "its name or its value",
    Sort.RECORD: "dataclasses.asdict(...) of it",
    Sort.NAMED: "tuple(...) or _asdict() of it",
}
"""The suggested replacements for values of the script's own classes."""

_SIMPLE: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: value,
    bool: lambda value: value,
    int: _write_int,
    float: _write_float,
    str: _write_str,
    bytes: lambda value: {"$bytes": _text(value)},
    bytearray: lambda value: {"$bytearray": _text(value)},
    complex: lambda value: {"$complex": [repr(value.real), repr(value.imag)]},
    range: lambda value: {"$range": [str(n) for n in (value.start, value.stop, value.step)]},
    torch.Size: lambda value: {"$size": list(value)},
    torch.dtype: lambda value: {"$dtype": str(value).removeprefix("torch.")},
    torch.device: lambda value: {"$device": str(value)},
}

_NESTED: dict[type, Callable[[Any, TensorCollector, Path], Any]] = {
    list: _write_items,
    tuple: _items_writer("$tuple"),
    set: _items_writer("$set"),
    frozenset: _items_writer("$frozenset"),
    dict: _write_dict,
    OrderedDict: _write_ordered,
    deque: _write_deque,
    defaultdict: _write_defaultdict,
    Counter: lambda value, collector, path: {"$counter": _write_pairs(value, collector, path)},
    SimpleNamespace: lambda value, collector, path: {
        "$namespace": _write_pairs(vars(value), collector, path)
    },
}


def _text(raw: bytes | bytearray) -> str:
    return base64.b64encode(raw).decode()


def _is_text(value: str) -> bool:
    """Whether it can be written as UTF-8; half of a surrogate pair cannot."""
    return value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)


class _Keys:
    """The collector for a dictionary's keys: tensors are refused there."""

    trust = False

    def __init__(self, classes: ScriptClasses) -> None:
        self.classes = classes

    def tensor(self, _tensor: Any, path: Path) -> str | None:
        raise UnsupportedState(f"{named(path)} has a tensor as a key")

    def object(self, _value: Any, _path: Path) -> Any:
        return STATELESS
