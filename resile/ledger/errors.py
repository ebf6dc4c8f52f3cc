"""What can go wrong with a ledger.

LedgerError
├── NoLedger        there is none in that folder
├── LedgerUnusable  it cannot be written where it is said to be
└── LedgerDamaged   a line, other than a last one cut off by a crash, is not what was written
"""

from __future__ import annotations

__all__ = ["LedgerDamaged", "LedgerError", "LedgerUnusable", "NoLedger"]


class LedgerError(Exception):
    """Base of all; the text can be shown to a user as it is."""


class NoLedger(LedgerError):
    """There is no ledger in the folder."""


class LedgerUnusable(LedgerError):
    """A worker cannot write a ledger in this folder. Names it, and what the system said."""


class LedgerDamaged(LedgerError):
    """A line is not what was written. Names the file and the line."""
