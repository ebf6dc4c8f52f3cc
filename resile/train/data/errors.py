"""Errors of the data package.

DataError
├── DataMistake     invalid arguments or usage; says what would be right
├── PositionMisfit  the saved position belongs to different data than the script's
├── RecordDamaged   a file's content does not match its format; names file and position
└── ReaderMissing   a library that reads this format is not installed; says which
"""

from __future__ import annotations

__all__ = ["DataError", "DataMistake", "PositionMisfit", "ReaderMissing", "RecordDamaged"]


class DataError(Exception):
    """Base class of all; the text can be shown to a user as it is."""


class DataMistake(DataError, ValueError):
    """Invalid arguments or usage. Names the argument and what would be right."""


class PositionMisfit(DataError):
    """The saved position belongs to different data than the script's."""


class RecordDamaged(DataError):
    """A file's content does not match its format. Names the file and the position in it."""


class ReaderMissing(DataError, ImportError):
    """A library that reads this format is not installed. Says how to install it."""
