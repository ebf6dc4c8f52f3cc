"""What can go wrong with data.

DataError
├── DataMistake     what the script asked for cannot be; says what would be right
├── PositionMisfit  the saved position belongs to other data than the script has now
├── RecordDamaged   a file's content is not what its format says; names file and place
└── ReaderMissing   a library that reads this format is not installed; says which
"""

from __future__ import annotations

__all__ = ["DataError", "DataMistake", "PositionMisfit", "ReaderMissing", "RecordDamaged"]


class DataError(Exception):
    """Base of all; the text can be shown to a user as it is."""


class DataMistake(DataError, ValueError):
    """What the script asked for cannot be. Names the argument and what would be right."""


class PositionMisfit(DataError):
    """The saved position belongs to other data than the script has now."""


class RecordDamaged(DataError):
    """A file's content is not what its format says. Names the file and the place in it."""


class ReaderMissing(DataError, ImportError):
    """A library that reads this format is not installed. Says how to install it."""
