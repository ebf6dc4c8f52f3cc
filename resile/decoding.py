"""Decoding of all data from a disk or a network: one helper, and one error.

msgspec reports most bad input as its own ``DecodeError``, but bad UTF-8 as ``UnicodeDecodeError``
and deep nesting as ``RecursionError``; code that expects only the first of them fails on a single
flipped bit. Here all of them become :class:`DecodeError`. Other modules do not decode by
themselves: ruff's ``banned-api`` forbids it.

This module is in the bottom layer: it imports no other module of Resile.
"""

from __future__ import annotations

import json
from collections.abc import Hashable
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

import msgspec

__all__ = ["DecodeError", "JsonDecoder", "MsgpackDecoder", "convert", "decode_json"]
__all__ += ["decode_msgpack", "decode_python_json"]

T = TypeVar("T")

_FAULTS = (ValueError, RecursionError, OverflowError)
"""All exceptions that msgspec raises for bad input; its own are ValueErrors."""


class DecodeError(ValueError):
    """Data is invalid: not JSON or msgpack, not UTF-8, nested too deeply, or with missing fields,
    wrong types or values out of bounds. The text gives the reason."""


class JsonDecoder(Generic[T]):
    """Decodes JSON of one type, which may also be a union: ``JsonDecoder[A | B](A | B)``."""

    def __init__(self, kind: Any) -> None:
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(kind)

    def decode(self, data: bytes | bytearray | memoryview | msgspec.Raw | str) -> T:
        """Raises :class:`DecodeError`."""
        try:
            decoded: T = self._decoder.decode(data)
        except _FAULTS as error:
            raise _described(error) from None
        return decoded


class MsgpackDecoder(Generic[T]):
    """Decodes msgpack of one type, which may also be a union."""

    def __init__(self, kind: Any) -> None:
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(kind)

    def decode(self, data: bytes | bytearray | memoryview) -> T:
        """Raises :class:`DecodeError`."""
        try:
            decoded: T = self._decoder.decode(data)
        except _FAULTS as error:
            raise _described(error) from None
        return decoded


def decode_json(data: bytes | str, kind: type[T]) -> T:
    """Decode JSON; raises :class:`DecodeError`. ``object`` stands for data of any shape."""
    decoded: T = _json_decoder(cast(Hashable, kind)).decode(data)
    return decoded


def decode_msgpack(data: bytes, kind: type[T]) -> T:
    """Decode msgpack; raises :class:`DecodeError`."""
    decoded: T = _msgpack_decoder(cast(Hashable, kind)).decode(data)
    return decoded


def decode_python_json(data: bytes | str) -> Any:
    """Decode the output of Python's ``json``, including NaN and unpaired surrogates; raises
    :class:`DecodeError`."""
    try:
        return json.loads(data)
    except _FAULTS as error:
        raise _described(error) from None


def convert(data: object, kind: type[T]) -> T:
    """Convert plain data (dictionaries, lists, numbers, text) to ``kind``; raises
    :class:`DecodeError`."""
    try:
        return msgspec.convert(data, kind)
    except _FAULTS as error:
        raise _described(error) from None


def _described(error: Exception) -> DecodeError:
    if isinstance(error, RecursionError):
        return DecodeError("it is nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return DecodeError(f"it is not UTF-8: {error.reason}")
    return DecodeError(str(error))


@lru_cache(maxsize=256)
def _json_decoder(kind: Hashable) -> JsonDecoder[Any]:
    return JsonDecoder(kind)


@lru_cache(maxsize=256)
def _msgpack_decoder(kind: Hashable) -> MsgpackDecoder[Any]:
    return MsgpackDecoder(kind)
