"""Errors of a ledger.

LedgerError
├── NoLedger        there is no ledger in the folder
├── LedgerUnusable  the folder cannot be written
└── LedgerDamaged   a line, except a last one truncated by a crash, differs from what was written
"""

from __future__ import annotations

__all__ = ["LedgerDamaged", "LedgerError", "LedgerUnusable", "NoLedger"]


class LedgerError(Exception):
    """Base class; the text can be shown to a user unchanged."""


class NoLedger(LedgerError):
    """There is no ledger in the folder."""


class LedgerUnusable(LedgerError):
    """A worker cannot write a ledger to this folder. Names it and the system's error."""


class LedgerDamaged(LedgerError):
    """A line differs from what was written. Names the file and the line."""
