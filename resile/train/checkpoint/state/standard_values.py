"""JSON encoding and decoding of plain values of Python's standard library, without pickle.

Paths, dates and times, exact numbers, UUIDs. Each type has a tag, a writer and a reader.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

__all__ = ["FACTORIES", "READERS", "WRITERS", "factory_name"]

FACTORIES: dict[str, Any] = {
    kind.__name__: kind for kind in (int, float, str, bytes, bool, list, dict, set, tuple)
}
"""The supported default factories of a defaultdict."""


def factory_name(factory: Any) -> str | None:
    """Return its name; raises KeyError for one that is not supported."""
    if factory is None:
        return None
    name = getattr(factory, "__name__", "")
    if FACTORIES.get(name) is not factory:
        raise KeyError(name)
    return str(name)


def _write_delta(value: timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _write_zone(value: tzinfo | None) -> Any:
    """Raises TypeError for a time zone class outside the standard library."""
    if value is None:
        return None
    if type(value) is ZoneInfo and value.key is not None:
        return value.key
    if type(value) is not timezone:
        raise TypeError(f"a time zone of type {type(value).__name__}")
    offset, *name = value.__getinitargs__()  # type: ignore[attr-defined]
    return [_write_delta(offset), *name]


def _read_zone(data: Any) -> tzinfo | None:
    if data is None:
        return None
    if isinstance(data, str):
        return ZoneInfo(data)
    offset, *name = data
    return timezone(timedelta(*offset), *name)


def _write_datetime(value: datetime) -> list[Any]:
    clock = _write_time(value.timetz())
    return [value.year, value.month, value.day, *clock]


def _read_datetime(data: list[Any]) -> datetime:
    year, month, day, *clock = data
    return datetime.combine(date(year, month, day), _read_time(clock))


def _write_time(value: time) -> list[Any]:
    numbers = [value.hour, value.minute, value.second, value.microsecond, value.fold]
    return [*numbers, _write_zone(value.tzinfo)]


def _read_time(data: list[Any]) -> time:
    hour, minute, second, microsecond, fold, zone = data
    return time(hour, minute, second, microsecond, tzinfo=_read_zone(zone), fold=fold)


_PATHS: dict[str, type[PurePath]] = {
    "posix": Path,
    "pure posix": PurePosixPath,
    "pure windows": PureWindowsPath,
}

WRITERS: dict[type, Callable[[Any], Any]] = {
    PosixPath: lambda value: {"$path": ["posix", str(value)]},
    PurePosixPath: lambda value: {"$path": ["pure posix", str(value)]},
    PureWindowsPath: lambda value: {"$path": ["pure windows", str(value)]},
    datetime: lambda value: {"$datetime": _write_datetime(value)},
    date: lambda value: {"$date": [value.year, value.month, value.day]},
    time: lambda value: {"$time": _write_time(value)},
    timedelta: lambda value: {"$timedelta": _write_delta(value)},
    timezone: lambda value: {"$zone": _write_zone(value)},
    ZoneInfo: lambda value: {"$zone": _write_zone(value)},
    Decimal: lambda value: {"$decimal": str(value)},
    Fraction: lambda value: {"$fraction": [str(value.numerator), str(value.denominator)]},
    UUID: lambda value: {"$uuid": value.hex},
}

READERS: dict[str, Callable[[Any], Any]] = {
    "$path": lambda data: _PATHS[data[0]](data[1]),
    "$datetime": _read_datetime,
    "$date": lambda data: date(*data),
    "$time": _read_time,
    "$timedelta": lambda data: timedelta(*data),
    "$zone": _read_zone,
    "$decimal": Decimal,
    "$fraction": lambda data: Fraction(int(data[0]), int(data[1])),
    "$uuid": lambda data: UUID(hex=data),
}
