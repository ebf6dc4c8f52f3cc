"""The result of one check of a machine or a cluster, for `resile doctor`."""

from __future__ import annotations

from enum import Enum

import msgspec

__all__ = ["Finding", "Level"]


class Level(Enum):
    """The severity of a finding."""

    OK = "ok"
    NOTE = "note"
    """Training does not need it; something else does."""
    WARNING = "warning"
    """Jobs run, but worse or not all of them."""
    ERROR = "error"
    """Jobs cannot run."""


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of the report."""

    area: str
    check: str
    level: Level
    found: str
    advice: str = ""
    """The consequence, and the remedy; empty where all is well."""
