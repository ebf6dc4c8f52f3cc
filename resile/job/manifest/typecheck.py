"""Check plain data against a msgspec type and report every mistake, not only the first.

msgspec itself stops at the first mistake. Here the data is walked together with the type's
description; each mistake becomes a :class:`Problem` with its path, what was found and what was
expected. The faulty part is left out of the result, so that the rest can still be checked.
"""

from __future__ import annotations

import difflib
import functools
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from resile.job.errors import Problem
from resile.job.limits import MAX_INTEGER, MAX_MANIFEST_DEPTH, text_problem
from resile.job.manifest.yaml_text import FieldPath, dotted
from resile.job.spec.fields import EXPECTED

__all__ = ["TypeChecker"]

_FAULTY = object()
_LONGEST_QUOTE = 60
_MOST_DIGITS = 25
_SHOWN_PATH = 8
"""Steps that are shown of a path that is far too deep."""

_FROM_ELSEWHERE = (
    "variables from secrets, config maps and the like go into template.spec.containers[0]"
)
_ELSEWHERE = {
    ("EnvVar", "valueFrom"): f"{_FROM_ELSEWHERE}.env",
    ("RoleSpec", "envFrom"): f"{_FROM_ELSEWHERE}.envFrom",
}
"""Kubernetes fields that belong elsewhere in our manifest, by the type people write them into."""


class TypeChecker:
    """Reads data of one type and collects its problems."""

    def __init__(self, lines: Mapping[str, int] | None = None) -> None:
        self.problems: list[Problem] = []
        self._lines = lines or {}

    def read(self, data: Any, kind: type[msgspec.Struct]) -> dict[str, Any]:
        """Return the valid part of ``data``; the rest is in ``problems``."""
        found = self._value(data, _description(kind), ())
        return found if isinstance(found, dict) else {}

    def report(self, path: FieldPath, message: str) -> None:
        """Add a problem, with the nearest known line."""
        known = next((n for n in range(len(path), -1, -1) if dotted(path[:n]) in self._lines), None)
        line = None if known is None else self._lines[dotted(path[:known])]
        self.problems.append(Problem(dotted(path), message, line))

    def _value(self, data: Any, described: inspect.Type, path: FieldPath) -> Any:
        kind = _bare(described)
        if len(path) > MAX_MANIFEST_DEPTH:
            self.report(path[:_SHOWN_PATH], f"nested deeper than {MAX_MANIFEST_DEPTH} levels")
            return _FAULTY
        if isinstance(kind, inspect.UnionType):
            return self._union(data, kind, path)
        if isinstance(kind, inspect.AnyType):
            return self._anything(data, path)
        if not _same_kind(data, kind):
            self.report(path, f"expected {_expected(described)}, found {_found(data, kind)}")
            return {} if isinstance(kind, inspect.StructType) else _FAULTY
        if isinstance(kind, inspect.StructType):
            return self._struct(data, kind, path)
        if isinstance(kind, inspect.DictType):
            return self._dict(data, kind, path)
        if isinstance(kind, inspect.VarTupleType):
            if len(data) < (kind.min_length or 0):
                self.report(path, f"expected at least {kind.min_length} item, found none")
                return _FAULTY
            if len(data) > (kind.max_length or len(data)):
                self.report(path, f"expected at most {kind.max_length} items, found {len(data)}")
                return _FAULTY
            items = [self._value(item, kind.item_type, (*path, n)) for n, item in enumerate(data)]
            return _FAULTY if any(item is _FAULTY for item in items) else items
        return self._scalar(data, described, path)

    def _union(self, data: Any, kind: inspect.UnionType, path: FieldPath) -> Any:
        members = kind.types
        fitting = [member for member in members if _same_kind(data, _bare(member))]
        valid = [member for member in fitting if _complaint(data, member) is None]
        if valid:  # of several, the first: an int is also a float
            return self._value(data, valid[0], path)
        alone = sum(not isinstance(_bare(one), inspect.NoneType) for one in members) == 1
        wanted = _complaint(data, fitting[0]) if fitting and alone else None
        self.report(path, f"expected {wanted or _expected(kind)}, found {_found(data, kind)}")
        return _FAULTY

    def _struct(self, data: dict[Any, Any], kind: inspect.StructType, path: FieldPath) -> Any:
        fields = {field.encode_name: field for field in kind.fields}
        found = {}
        for name, value in data.items():
            if name not in fields:
                elsewhere = _ELSEWHERE.get((kind.cls.__name__, name))
                self.report((*path, _quoted(name)), elsewhere or _unknown(_quoted(name), fields))
            elif value is not None or fields[name].required:  # an empty field counts as absent
                found[name] = self._value(value, fields[name].type, (*path, name))
        for name, field in fields.items():
            if field.required and name not in data:
                self.report((*path, name), f"is missing: give {_expected(field.type)}")
        valid = {name: value for name, value in found.items() if value is not _FAULTY}
        complete = all(name in valid for name, field in fields.items() if field.required)
        return valid if complete or not path else _FAULTY

    def _dict(self, data: dict[Any, Any], kind: inspect.DictType, path: FieldPath) -> Any:
        if len(data) < (kind.min_length or 0):
            self.report(path, f"expected at least {kind.min_length} entry, found none")
        if len(data) > (kind.max_length or len(data)):
            self.report(path, f"expected at most {kind.max_length} entries, found {len(data)}")
            return {}
        found = {}
        for key, value in data.items():
            complaint = _complaint(key, kind.key_type)
            if complaint is not None:
                self.report((*path, _quoted(key)), f"the name must be {complaint}")
            else:
                found[key] = self._value(value, kind.value_type, (*path, key))
        return {key: value for key, value in found.items() if value is not _FAULTY}

    def _scalar(self, data: Any, kind: inspect.Type, path: FieldPath) -> Any:
        complaint = _complaint(data, kind)
        if complaint is None:
            return data
        self.report(path, f"expected {complaint}, found {_found(data, _bare(kind))}")
        return _FAULTY

    def _anything(self, data: Any, path: FieldPath) -> Any:
        """Part of a pod template or the like: anything that JSON and Kubernetes can hold."""
        if len(path) > MAX_MANIFEST_DEPTH:
            self.report(path[:_SHOWN_PATH], f"nested deeper than {MAX_MANIFEST_DEPTH} levels")
            return None
        if isinstance(data, dict):
            valid = {key: value for key, value in data.items() if self._sendable(key, path)}
            return {key: self._anything(value, (*path, key)) for key, value in valid.items()}
        if isinstance(data, list | tuple):
            return [self._anything(item, (*path, n)) for n, item in enumerate(data)]
        if why := _unsendable(data):
            self.report(path, why)
            return None
        return data

    def _sendable(self, key: Any, path: FieldPath) -> bool:
        if isinstance(key, str) and not text_problem(key):
            return True
        self.report((*path, _quoted(key)), "the name must be a text that can be sent")
        return False


def _unsendable(data: Any) -> str:
    """The reason why JSON, as Kubernetes reads it, cannot hold a value; empty if it can."""
    if data is not None and not isinstance(data, (str, int, float)):
        return f"found {_found(data)}, which JSON cannot hold; put it in quotes"
    if isinstance(data, str) and (why := text_problem(data)):
        return f"the text {why}"
    if isinstance(data, int) and abs(data) > MAX_INTEGER:
        return f"expected an integer of at most {MAX_INTEGER} in size"
    if isinstance(data, float) and not math.isfinite(data):
        return f"found {_found(data)}, which JSON cannot hold"
    return ""


@functools.cache
def _description(kind: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(kind)


def _bare(kind: inspect.Type) -> inspect.Type:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return kind


def _same_kind(data: Any, kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.StructType | inspect.DictType):
        return isinstance(data, dict)
    if isinstance(kind, inspect.VarTupleType):
        return isinstance(data, list | tuple)
    if isinstance(kind, inspect.BoolType):
        return isinstance(data, bool)
    if isinstance(kind, inspect.IntType):
        return isinstance(data, int) and not isinstance(data, bool)
    if isinstance(kind, inspect.FloatType):
        return isinstance(data, int | float) and not isinstance(data, bool)
    if isinstance(kind, inspect.NoneType):
        return data is None
    return isinstance(data, str)


def _complaint(data: Any, described: inspect.Type) -> str | None:
    """Describe what a value of the right type should have been; None if it is valid."""
    kind = _bare(described)
    words = _words(kind)
    if words is not None:
        return None if data in words else _expected(kind)
    valid = True
    if isinstance(kind, inspect.StrType):
        return _text_complaint(data, kind, expected=_expected(described))
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        valid = not (isinstance(data, float) and not math.isfinite(data)) and not (
            (kind.ge is not None and data < kind.ge)
            or (kind.gt is not None and data <= kind.gt)
            or (kind.le is not None and data > kind.le)
            or abs(data) > MAX_INTEGER
        )
    return None if valid else _expected(kind)


def _text_complaint(data: str, kind: inspect.StrType, *, expected: str) -> str | None:
    if text_problem(data):
        return "a text without NUL characters and lone surrogates"
    if kind.pattern is not None:
        valid = len(data) <= (kind.max_length or len(data)) and re.fullmatch(kind.pattern, data)
        return None if valid else expected
    if kind.max_length is not None and len(data) > kind.max_length:
        return f"a text of at most {kind.max_length} characters, not {len(data)}"
    return None if len(data) >= (kind.min_length or 0) else expected


def _words(kind: inspect.Type) -> list[str] | None:
    if isinstance(kind, inspect.EnumType):
        return [str(member.value) for member in kind.cls]
    if isinstance(kind, inspect.LiteralType):
        return [str(value) for value in kind.values]
    return None


def _expected(kind: inspect.Type) -> str:
    """Describe the values of a type: in its own words (:data:`EXPECTED`) where it has some."""
    if isinstance(kind, inspect.Metadata):
        own = (kind.extra or {}).get(EXPECTED)
        return _expected(kind.type) if own is None else str(own)
    if isinstance(kind, inspect.UnionType):
        members = [m for m in kind.types if not isinstance(_bare(m), inspect.NoneType)]
        return " or ".join(dict.fromkeys(_expected(member) for member in members))
    words = _words(kind)
    if words is not None:
        return words[0] if len(words) == 1 else f"one of {', '.join(words)}"
    if isinstance(kind, inspect.StructType):
        return f"a mapping with {', '.join(field.encode_name for field in kind.fields)}"
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        return _number(kind)
    if isinstance(kind, inspect.StrType):
        return "a text that is not empty" if kind.min_length else "a text"
    if isinstance(kind, inspect.VarTupleType):
        return f"a list, each item {_expected(kind.item_type)}"
    if isinstance(kind, inspect.DictType):
        return "a mapping"
    return "true or false" if isinstance(kind, inspect.BoolType) else "a value"


def _number(kind: inspect.IntType | inspect.FloatType) -> str:
    noun = "an integer" if isinstance(kind, inspect.IntType) else "a number"
    bounds = []
    if kind.ge is not None:
        bounds.append(f"of at least {_plain(kind.ge)}")
    if kind.gt is not None:
        bounds.append(f"greater than {_plain(kind.gt)}")
    if kind.le is not None:
        bounds.append(f"at most {_plain(kind.le)}")
    return f"{noun} {' and '.join(bounds)}" if bounds else noun


def _plain(number: float) -> str:
    """A number without an exponent."""
    return str(int(number)) if number == int(number) else f"{number:g}"


def _found(data: Any, kind: inspect.Type | None = None) -> str:
    """Describe a value, with the fix where only quotes are missing."""
    fix = ""
    if isinstance(kind, inspect.StrType) and isinstance(data, bool | int | float):
        written = str(data).lower() if isinstance(data, bool) else _short_number(data)
        fix = f'; put it in quotes: "{written}"'
    if data is None:
        return "nothing"
    if isinstance(data, bool):
        return f"the boolean {str(data).lower()}{fix}"
    if isinstance(data, int | float):
        return f"the number {_short_number(data)}{fix}"
    if isinstance(data, str):
        words = _words(kind) or () if kind is not None else ()
        hint = _did_you_mean(data, words) if len(words) > 1 else ""
        return f'"{_quoted(data)}"{hint}'
    if isinstance(data, dict):
        return "a mapping"
    return "a list" if isinstance(data, list | tuple) else f"a {type(data).__name__}"


def _quoted(value: object) -> str:
    """A text cut to a readable length, with characters that can be written anywhere."""
    text = str(value).encode(errors="backslashreplace").decode().replace("\0", "\\x00")
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}…"


def _short_number(number: float) -> str:
    """A number as text; an integer may have more digits than Python converts."""
    if isinstance(number, int) and abs(number) >= 10**_MOST_DIGITS:
        return f"with more than {_MOST_DIGITS} digits"
    return str(number)


def _unknown(name: str, fields: Iterable[str]) -> str:
    hint = _did_you_mean(name, fields)
    return "is not a known field" + (hint or f"; known fields: {', '.join(fields)}")


def _did_you_mean(word: str, choices: Iterable[str]) -> str:
    by_lower = {choice.lower().replace("_", ""): choice for choice in choices}
    near = difflib.get_close_matches(word.lower().replace("_", ""), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""
