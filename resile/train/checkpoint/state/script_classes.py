"""Values of a script's own classes, saved without pickle: enums, dataclasses and named tuples.

A checkpoint holds the class's name and the fields' values, or the members' names. The name is never
imported: it is only looked up among the classes that the state given to ``restore`` holds, so data
on storage can neither load code nor create an object of a class of its choice. For the same reason
values of a class that this state does not hold are not saved: a new worker could not read them.

Objects are rebuilt without ``__init__``, ``__new__`` or ``__post_init__``. A class whose objects
are more than their fields (a subclass of ``dict``, one with its own ``__new__``, one with other
attributes) is not supported.
"""

from __future__ import annotations

import dataclasses
import typing
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum, Flag
from functools import cached_property, reduce
from operator import or_
from types import SimpleNamespace
from typing import Any, Final

import torch
from torch.optim import Optimizer

from resile.train.checkpoint.errors import StateMismatch, UnsupportedState
from resile.train.checkpoint.state.values import Fields, Path, Sort, named

__all__ = [
    "Rebuilding",
    "ScriptClasses",
    "check_whole",
    "class_name",
    "fields_of",
    "is_record",
    "member_names",
    "put_back",
    "sort_of",
]

_LEAVES: Final = frozenset({type(None), bool, int, float, str, bytes, torch.Tensor})
"""Types that contain nothing to search; lists have thousands of them."""

_NOTHING: Final = object()


def class_name(kind: type) -> str:
    """Return the name of a class as written in a checkpoint."""
    return f"{kind.__module__}:{kind.__qualname__}"


def sort_of(kind: type) -> Sort | None:
    """Return how objects of a class are saved; None for a class that is not supported."""
    if issubclass(kind, Enum):
        return Sort.MEMBER
    if issubclass(kind, tuple):
        return Sort.NAMED if hasattr(kind, "_fields") and hasattr(kind, "_make") else None
    plain = dataclasses.is_dataclass(kind) and kind.__new__ is object.__new__
    return Sort.RECORD if plain else None


def is_record(value: Any) -> bool:
    """Return whether it is an object of a dataclass that can be saved by its fields."""
    return dataclasses.is_dataclass(value) and sort_of(type(value)) is Sort.RECORD


def fields_of(value: Any) -> dict[str, Any]:
    """Return a dataclass's fields that have a value."""
    found = ((one.name, getattr(value, one.name, _NOTHING)) for one in dataclasses.fields(value))
    return {name: one for name, one in found if one is not _NOTHING}


def check_whole(value: Any, path: Path) -> None:
    """Raise UnsupportedState for a dataclass or named tuple that is more than its fields."""
    record = is_record(value)
    fields = [one.name for one in dataclasses.fields(value)] if record else list(value._fields)
    lacking = [name for name in fields if record and not hasattr(value, name)]
    beside = [name for name in _attributes(value) if name not in fields]
    if lacking or beside or (not record and len(fields) != len(value)):
        raise UnsupportedState(
            f"{named(path)} is a {class_name(type(value))} that cannot be saved by its fields alone"
            f"{_listed('; fields without a value: ', lacking)}"
            f"{_listed('; attributes beside the fields: ', beside)}. "
            "Make them fields, or give it state_dict and load_state_dict"
        )


def _listed(what: str, names: list[str]) -> str:
    return what + ", ".join(names) if names else ""


def _attributes(value: Any) -> Iterator[str]:
    """The names of an object's attributes, except those that ``cached_property`` recomputes."""
    for name in getattr(value, "__dict__", ()):
        if not isinstance(getattr(type(value), name, None), cached_property):
            yield name
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield name


def member_names(member: Enum) -> list[str] | None:
    """Return the member's name; for a combination of flags all their names. None if unnamed."""
    names = [member._name_]
    if isinstance(member, Flag) and member._name_ not in type(member).__members__:
        names = [str(one._name_) for one in type(member) if one.value and one in member]
    try:
        return names if _member(type(member), names) is member else None
    except (KeyError, ValueError):
        return None


def _member(kind: type[Enum], names: list[str]) -> Enum:
    """Raises KeyError for an unknown member."""
    members = [kind.__members__[name] for name in names]
    if issubclass(kind, Flag):
        return reduce(or_, members, kind(0))
    (only,) = members
    return only


def put_back(live: Any, fields: Mapping[str, Any]) -> Any:
    """Return the dataclass object with new values: the same object, or a new one if frozen."""
    frozen = type(live).__dataclass_params__.frozen
    target = object.__new__(type(live)) if frozen else live
    for name, one in (fields if not frozen else {**fields_of(live), **fields}).items():
        object.__setattr__(target, name, one)
    return target


class ScriptClasses:
    """The enums, dataclasses and named tuples in a state, also as types of fields."""

    def __init__(self, state: Any = None, *, records: dict[Path, Any] | None = None) -> None:
        """``records``: filled with the state's dataclass objects by path."""
        self.of_a_state = state is not None
        self._records = {} if records is None else records
        self._by_name: dict[str, type] = {}
        self._seen: dict[int, Any] = {}
        self._look(state, ())
        # Hold no reference to the values: the script may change and release them.
        self._seen = {}
        self._records = {}

    def has(self, kind: type) -> bool:
        """Return whether objects of this class can be read back."""
        return self._by_name.get(class_name(kind)) is kind

    def find(self, name: str, sort: Sort) -> type | None:
        """Return the class of a name. A class that has moved to another module is found by its
        qualified name, if it is the only one."""
        found = self._by_name.get(name)
        if found is None:
            own = name.partition(":")[2]
            others = [one for one in self._by_name.values() if one.__qualname__ == own]
            found = others[0] if len(others) == 1 else None
        return found if found is not None and sort_of(found) is sort else None

    def _look(self, value: Any, path: Path) -> None:
        if type(value) in _LEAVES or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        self._note(type(value))
        if is_record(value):
            self._records[path] = value
        for key, one in _inside(value):
            self._look(key, path)
            self._look(one, (*path, str(key)))

    def _note(self, kind: type) -> None:
        sort = sort_of(kind)
        if sort is None or class_name(kind) in self._by_name:
            return
        self._by_name[class_name(kind)] = kind
        if sort is not Sort.MEMBER:
            for hint in _hints(kind):
                self._note_all(hint)

    def _note_all(self, hint: Any) -> None:
        """The classes in a type such as ``list[Metrics] | None``."""
        kind = typing.get_origin(hint) or hint
        if isinstance(kind, type):
            self._note(kind)
        for one in typing.get_args(hint):
            self._note_all(one)


def _inside(value: Any) -> Iterable[tuple[Any, Any]]:
    """The values in a container, each with its key, index or field name."""
    if isinstance(value, Optimizer):
        return [("param_groups", value.param_groups)]
    if isinstance(value, SimpleNamespace):
        value = vars(value)
    elif is_record(value):
        value = fields_of(value)
    if isinstance(value, dict):
        return value.items()
    if not isinstance(value, (list, tuple, set, frozenset, deque)) or _LEAVES.issuperset(
        map(type, value)
    ):
        return ()
    return enumerate(value)


def _hints(kind: type) -> Iterable[Any]:
    try:
        return typing.get_type_hints(kind).values()
    except Exception:  # a name that exists for type checkers only, or inside a function
        return ()


class Rebuilding:
    """Builds values of the classes that a live state holds."""

    def __init__(
        self, state: Any, compare: Callable[[Iterable[Any], Iterable[Any], Path], None]
    ) -> None:
        """``compare`` is called with the fields of the class and of the checkpoint."""
        self._state = state
        self._records: dict[Path, Any] = {}
        self._compare = compare

    @cached_property
    def classes(self) -> ScriptClasses:
        """The state's classes; searched for when the first one is needed."""
        return ScriptClasses(self._state, records=self._records)

    @property
    def for_keys(self) -> Rebuilding:
        """The same builder: a value that was a key can be one again."""
        return self

    def member(self, name: str, members: list[str], path: Path) -> Any:
        """Return a member of an enum, or a combination of flags."""
        kind = self.kind(name, Sort.MEMBER, path)
        try:
            return _member(kind, members)
        except KeyError as error:
            text = f"{name} no longer has the member {error.args[0]}, which the checkpoint has"
            raise StateMismatch([f"{named(path)}: {text}"]) from None

    def record(self, name: str, fields: Fields, path: Path) -> Any:
        """Build an object of a dataclass."""
        kind = self.kind(name, Sort.RECORD, path)
        live = self._records.get(path)
        known = fields_of(live) if type(live) is kind else {}
        expected = {one.name: one for one in dataclasses.fields(kind)}
        made = object.__new__(kind)
        for field, one in self._fitting(
            fields(),
            expected,
            otherwise=lambda name: known[name] if name in known else _default(expected[name]),
            path=path,
        ):
            object.__setattr__(made, field, one)
        return made

    def named_tuple(self, name: str, fields: Fields, path: Path) -> Any:
        """Build a named tuple."""
        kind: Any = self.kind(name, Sort.NAMED, path)
        fitting = self._fitting(
            fields(),
            kind._fields,
            otherwise=lambda name: kind._field_defaults.get(name, _NOTHING),
            path=path,
        )
        return tuple.__new__(kind, [one for _, one in fitting])

    def kind(self, name: str, sort: Sort, path: Path) -> Any:
        """Return the class of a name; raises StateMismatch if the state holds none."""
        found = self.classes.find(name, sort)
        if found is None:
            raise StateMismatch(
                [
                    f"{named(path)}: saved as a {name}, but the state to restore holds no value of "
                    "that class; put one anywhere into the state before calling restore"
                ]
            )
        return found

    def _fitting(
        self,
        fields: dict[str, Any],
        expected: Iterable[str],
        *,
        otherwise: Callable[[str], Any],
        path: Path,
    ) -> list[tuple[str, Any]]:
        """The expected fields with their saved values, or with ``otherwise``'s."""
        self._compare(expected, fields, path)
        fitting = [(name, fields[name] if name in fields else otherwise(name)) for name in expected]
        lacking = [name for name, one in fitting if one is _NOTHING]
        if lacking:
            raise StateMismatch(
                [f"{named((*path, name))}: has neither a value nor a default" for name in lacking]
            )
        return fitting


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return _NOTHING
