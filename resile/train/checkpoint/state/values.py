"""The JSON format for everything in a state that is not a tensor, and its decoder.

None, booleans, numbers, text, lists and dictionaries with plain keys are written as JSON writes
them. Everything that JSON lacks becomes an object with a key that starts with ``$``:
``{"$tuple": […]}``, ``{"$tensor": name}``. A user's dictionary with such a key, or with keys that
are not text, is written as pairs (``$dict``), so the two never collide.

Tensors are referred to by name. Values of other types are written with ``torch.save`` (``$torch``)
and read with torch's weights_only; what that refuses is read only with ``trust=True``, because
reading it can run code that the checkpoint names.

Values of the script's own classes (:class:`Sort`) carry the class's name. The caller of ``decode``
chooses how they are built (:class:`Builder`); nothing is ever imported by name here.
"""

from __future__ import annotations

import base64
import io
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from types import SimpleNamespace
from typing import Any, Protocol

import torch

from resile.checkpoint.errors import CheckpointError, NotTrusted, PartDamaged
from resile.train.checkpoint.state import arrays
from resile.train.checkpoint.state.standard_values import FACTORIES, READERS

__all__ = [
    "Builder",
    "Fields",
    "Path",
    "Resolver",
    "Sort",
    "decode",
    "entries",
    "named",
    "record",
    "tagged",
]

Path = tuple[str, ...]


class Sort(Enum):
    """The supported sorts of a script's own classes; each with its tag."""

    MEMBER = "$member"
    """A member of an enum, by name; a combination of flags, by their names."""

    RECORD = "$record"
    """An object of a dataclass: its fields by name."""

    NAMED = "$named"
    """A named tuple: its fields by name."""


class Resolver(Protocol):
    """Provides tensors while a state is decoded."""

    def tensor(self, name: str, path: Path, /) -> Any:
        """Return the tensor of a name, for the position ``path``."""

    def array(self, name: str, path: Path, /) -> Any:
        """Return it as a numpy array."""


Fields = Callable[[], dict[str, Any]]
"""Decodes fields by name; called once the builder knows the class."""


class Builder(Protocol):
    """Builds values of the script's own classes from their names and contents."""

    @property
    def for_keys(self) -> Builder:
        """The builder for dictionary keys and set elements, which must be hashable."""

    def member(self, name: str, members: list[str], path: Path, /) -> Any:
        """Return a member of an enum, or a combination of flags."""

    def record(self, name: str, fields: Fields, path: Path, /) -> Any:
        """Build an object of a dataclass."""

    def named_tuple(self, name: str, fields: Fields, path: Path, /) -> Any:
        """Build a named tuple."""


class _Plain:
    """Builds plain values in place of the script's classes: text, dictionaries, tuples."""

    @property
    def for_keys(self) -> Builder:
        return _HASHABLE

    def member(self, _name: str, members: list[str], _path: Path) -> Any:
        return "|".join(members)

    def record(self, _name: str, fields: Fields, _path: Path) -> Any:
        return fields()

    def named_tuple(self, _name: str, fields: Fields, _path: Path) -> Any:
        return tuple(fields().values())


class _Hashable(_Plain):
    def record(self, _name: str, fields: Fields, _path: Path) -> Any:
        return tuple(fields().items())


_PLAIN = _Plain()
_HASHABLE = _Hashable()


def decode(
    data: Any,
    *,
    resolver: Resolver,
    path: Path = (),
    trust: bool = False,
    builder: Builder = _PLAIN,
) -> Any:
    """Decode what :func:`encode` wrote.

    Raises :class:`NotTrusted` for values that need ``trust``, :class:`PartDamaged` for invalid
    data, and what ``builder`` raises.
    """
    try:
        return _decode(data, _Reading(resolver, trust, builder), path)
    except RecursionError:
        raise PartDamaged(f"{named(path)} is nested too deeply") from None


def _decode(data: Any, reading: _Reading, path: Path) -> Any:
    if isinstance(data, list):
        return _items(data, reading, path)
    if not isinstance(data, dict):
        return data
    tag = tagged(data)
    if tag is None:
        return _values(data, reading, path)
    simple, nested = _SIMPLE.get(tag), _NESTED.get(tag)
    try:
        if simple is not None:
            return simple(data[tag])
        if nested is not None:
            return nested(data[tag], reading, path)
    except (CheckpointError, RecursionError):
        raise
    except Exception as error:
        raise PartDamaged(f"{named(path)} cannot be read: {error!r}") from error
    raise PartDamaged(f"{named(path)} is of a kind this version does not know: {tag}")


def _items(data: list[Any], reading: _Reading, path: Path) -> list[Any]:
    if not isinstance(data, list):
        raise TypeError(f"a {type(data).__name__} in place of a list")
    if set(map(type, data)) == {int}:
        return data  # a random state has hundreds
    return [_decode(one, reading, (*path, str(index))) for index, one in enumerate(data)]


def _values(data: dict[str, Any], reading: _Reading, path: Path) -> dict[str, Any]:
    return {key: _decode(one, reading, (*path, key)) for key, one in data.items()}


def _pairs(data: list[list[Any]], reading: _Reading, path: Path) -> list[tuple[Any, Any]]:
    found = []
    for encoded, one in data:
        key = _decode(encoded, reading.for_keys, path)
        found.append((key, _decode(one, reading, (*path, str(key)))))
    return found


def tagged(data: Any) -> str | None:
    """Return the tag of encoded data, if it has one."""
    if not isinstance(data, dict) or not data:
        return None
    first = next(iter(data))
    return first if isinstance(first, str) and first.startswith("$") else None


def entries(data: Any, *, builder: Builder = _PLAIN) -> dict[Any, Any] | None:
    """Return an encoded dictionary's keys with their encoded values; None for anything else."""
    tag = tagged(data)
    if tag in ("$dict", "$ordered", "$defaultdict"):
        pairs = data[tag][1] if tag == "$defaultdict" else data[tag]
        return {decode(key, resolver=_NO_TENSORS, builder=builder): one for key, one in pairs}
    return data if isinstance(data, dict) and tag is None else None


def record(data: Any) -> tuple[str, dict[str, Any]] | None:
    """Return an encoded dataclass's name and fields; None for anything else."""
    if tagged(data) != Sort.RECORD.value:
        return None
    name, found = data[Sort.RECORD.value]
    return name, found


def named(path: Path) -> str:
    """Return a path in dotted form."""
    return ".".join(path) or "the state"


@dataclass(frozen=True)
class _Reading:
    """The options of a decode, the same at every position in the tree."""

    resolver: Resolver
    trust: bool
    builder: Builder

    @property
    def for_keys(self) -> _Reading:
        return _Reading(_NO_TENSORS, trust=False, builder=self.builder.for_keys)

    @property
    def for_sets(self) -> _Reading:
        return replace(self, builder=self.builder.for_keys)


def _read_dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"torch.{name} is not a dtype")
    return found


def _read_torch(data: list[str], reading: _Reading, path: Path) -> Any:
    kind, raw = data[0], io.BytesIO(base64.b64decode(data[1]))
    if reading.trust:
        return torch.load(raw, weights_only=False)
    try:
        return torch.load(raw, weights_only=True)
    except Exception as error:
        raise NotTrusted(
            f"{named(path)} is a {kind}: reading it can run code from the checkpoint; if you "
            "trust its origin, restore with trust=True"
        ) from error


def _read_defaultdict(data: list[Any], reading: _Reading, path: Path) -> Any:
    factory = None if data[0] is None else FACTORIES[data[0]]
    return defaultdict(factory, _pairs(data[1], reading, path))


def _read_member(data: list[Any], reading: _Reading, path: Path) -> Any:
    name, members = data
    return reading.builder.member(name, members, path)


def _read_record(data: list[Any], reading: _Reading, path: Path) -> Any:
    name, found = data
    return reading.builder.record(name, lambda: _values(found, reading, path), path)


def _read_named(data: list[Any], reading: _Reading, path: Path) -> Any:
    name, names, values = data

    def fields() -> dict[str, Any]:
        return dict(zip(names, _items(values, reading, path), strict=True))

    return reading.builder.named_tuple(name, fields, path)


_SIMPLE: dict[str, Callable[[Any], Any]] = {
    "$int": int,
    "$float": float,
    "$complex": lambda data: complex(float(data[0]), float(data[1])),
    "$str": lambda data: base64.b64decode(data).decode("utf-8", "surrogatepass"),
    "$bytes": base64.b64decode,
    "$bytearray": lambda data: bytearray(base64.b64decode(data)),
    "$npy": lambda data: arrays.read_array(base64.b64decode(data)),
    "$numpy": lambda data: arrays.read_scalar(data[0], base64.b64decode(data[1])),
    "$range": lambda data: range(*map(int, data)),
    "$size": torch.Size,
    "$dtype": _read_dtype,
    "$device": torch.device,
    "$per_rank": lambda _: None,
    **READERS,
}

_NESTED: dict[str, Callable[[Any, _Reading, Path], Any]] = {
    "$tensor": lambda data, reading, path: reading.resolver.tensor(data, path),
    "$array": lambda data, reading, path: reading.resolver.array(data, path),
    "$tuple": lambda data, reading, path: tuple(_items(data, reading, path)),
    "$set": lambda data, reading, path: set(_items(data, reading.for_sets, path)),
    "$frozenset": lambda data, reading, path: frozenset(_items(data, reading.for_sets, path)),
    "$dict": lambda data, reading, path: dict(_pairs(data, reading, path)),
    "$ordered": lambda data, reading, path: OrderedDict(_pairs(data, reading, path)),
    "$deque": lambda data, reading, path: deque(_items(data[0], reading, path), maxlen=data[1]),
    "$defaultdict": _read_defaultdict,
    "$counter": lambda data, reading, path: Counter(dict(_pairs(data, reading, path))),
    "$namespace": lambda data, reading, path: SimpleNamespace(**dict(_pairs(data, reading, path))),
    "$torch": _read_torch,
    Sort.MEMBER.value: _read_member,
    Sort.RECORD.value: _read_record,
    Sort.NAMED.value: _read_named,
}


class _NoTensors:
    """The resolver for a dictionary's keys: tensors are refused there."""

    def tensor(self, _name: str, path: Path) -> Any:
        raise PartDamaged(f"{named(path)} has a tensor as a key")

    array = tensor


_NO_TENSORS = _NoTensors()
