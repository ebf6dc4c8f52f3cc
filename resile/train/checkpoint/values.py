"""Everything in a state that is not a tensor, as data for JSON, and back exactly.

None, booleans, numbers, text, lists and dictionaries with plain keys are written as JSON writes
them. Everything JSON has no word for becomes an object with a key that starts with ``$``:
``{"$tuple": […]}``, ``{"$tensor": name}``. A dictionary of the user's with such a key, or with keys
that are not text, is written as pairs (``$dict``), so the two never mix.

Tensors are not written here: whoever encodes keeps them under a name. What is of no known kind is
written with ``torch.save`` (``$torch``) and read with torch's weights_only; what that refuses is
read only when the user trusts the checkpoint, because reading it runs code that it names.
"""

from __future__ import annotations

import base64
import io
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol

import torch

from resile.checkpoint.errors import CheckpointError, NotTrusted, PartDamaged
from resile.train.checkpoint import arrays
from resile.train.checkpoint.standard_values import FACTORIES, READERS

__all__ = ["Path", "Resolver", "decode", "entries", "named", "tagged"]

Path = tuple[str, ...]


class Resolver(Protocol):
    """Where tensors come from while a state is decoded."""

    def tensor(self, name: str, path: Path, /) -> Any:
        """The tensor of a name, for the place ``path``."""

    def array(self, name: str, path: Path, /) -> Any:
        """The same as a numpy array."""


def decode(data: Any, *, resolver: Resolver, path: Path = (), trust: bool = False) -> Any:
    """What :func:`encode` was given.

    Raises :class:`NotTrusted` for what needs ``trust``, :class:`PartDamaged` for nonsense.
    """
    try:
        return _decode(data, resolver=resolver, path=path, trust=trust)
    except RecursionError:
        raise PartDamaged(f"{named(path)} is nested too deeply") from None


def _decode(data: Any, *, resolver: Resolver, path: Path = (), trust: bool = False) -> Any:
    if isinstance(data, list):
        if set(map(type, data)) == {int}:
            return data  # a random state has hundreds
        return [
            _decode(one, resolver=resolver, path=(*path, str(index)), trust=trust)
            for index, one in enumerate(data)
        ]
    if not isinstance(data, dict):
        return data
    tag = tagged(data)
    if tag is None:
        return {
            key: _decode(one, resolver=resolver, path=(*path, key), trust=trust)
            for key, one in data.items()
        }
    simple, nested = _SIMPLE.get(tag), _NESTED.get(tag)
    try:
        if simple is not None:
            return simple(data[tag])
        if nested is not None:
            return nested(data[tag], _Reading(resolver, path, trust))
    except (CheckpointError, RecursionError):
        raise
    except Exception as error:
        raise PartDamaged(f"{named(path)} cannot be read: {error!r}") from error
    raise PartDamaged(f"{named(path)} is of a kind this version does not know: {tag}")


def tagged(data: Any) -> str | None:
    """The tag of encoded data that has one."""
    if not isinstance(data, dict) or not data:
        return None
    first = next(iter(data))
    return first if isinstance(first, str) and first.startswith("$") else None


def entries(data: Any) -> dict[Any, Any] | None:
    """An encoded dictionary's keys, each with what is encoded under it; None for anything else."""
    tag = tagged(data)
    if tag in ("$dict", "$ordered", "$defaultdict"):
        pairs = data[tag][1] if tag == "$defaultdict" else data[tag]
        return {decode(key, resolver=_NO_TENSORS): one for key, one in pairs}
    return data if isinstance(data, dict) and tag is None else None


def named(path: Path) -> str:
    """A path as people write it."""
    return ".".join(path) or "the state"


class _Reading:
    def __init__(self, resolver: Resolver, path: Path, trust: bool) -> None:
        self.resolver = resolver
        self.path = path
        self.trust = trust

    def items(self, data: list[Any]) -> list[Any]:
        read: list[Any] = _decode(data, resolver=self.resolver, path=self.path, trust=self.trust)
        return read

    def pairs(self, data: list[list[Any]]) -> list[tuple[Any, Any]]:
        return [self._pair(key, one) for key, one in data]

    def _pair(self, encoded_key: Any, one: Any) -> tuple[Any, Any]:
        key = _decode(encoded_key, resolver=_NO_TENSORS)
        path = (*self.path, str(key))
        return key, _decode(one, resolver=self.resolver, path=path, trust=self.trust)


def _read_dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"torch.{name} is not a type of elements")
    return found


def _read_torch(data: list[str], reading: _Reading) -> Any:
    kind, raw = data[0], io.BytesIO(base64.b64decode(data[1]))
    if reading.trust:
        return torch.load(raw, weights_only=False)
    try:
        return torch.load(raw, weights_only=True)
    except Exception as error:
        raise NotTrusted(
            f"{named(reading.path)} is a {kind}: reading it can run code that the checkpoint "
            "brings along; if you trust where it comes from, restore with trust=True"
        ) from error


def _read_defaultdict(data: list[Any], reading: _Reading) -> Any:
    factory = None if data[0] is None else FACTORIES[data[0]]
    return defaultdict(factory, reading.pairs(data[1]))


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

_NESTED: dict[str, Callable[[Any, _Reading], Any]] = {
    "$tensor": lambda data, reading: reading.resolver.tensor(data, reading.path),
    "$array": lambda data, reading: reading.resolver.array(data, reading.path),
    "$tuple": lambda data, reading: tuple(reading.items(data)),
    "$set": lambda data, reading: set(reading.items(data)),
    "$frozenset": lambda data, reading: frozenset(reading.items(data)),
    "$dict": lambda data, reading: dict(reading.pairs(data)),
    "$ordered": lambda data, reading: OrderedDict(reading.pairs(data)),
    "$deque": lambda data, reading: deque(reading.items(data[0]), maxlen=data[1]),
    "$defaultdict": _read_defaultdict,
    "$counter": lambda data, reading: Counter(dict(reading.pairs(data))),
    "$namespace": lambda data, reading: SimpleNamespace(**dict(reading.pairs(data))),
    "$torch": _read_torch,
}


class _NoTensors:
    """The resolver of a dictionary's keys: tensors have no business there."""

    def tensor(self, _name: str, path: Path) -> Any:
        raise PartDamaged(f"{named(path)} has a tensor as a key")

    array = tensor


_NO_TENSORS = _NoTensors()
