"""The file that workers import as ``migration``, if the user has no module of that name."""

from __future__ import annotations

from pathlib import Path

__all__ = ["LATE_MODULES"]

LATE_MODULES = {"migration": str(Path(__file__).with_name("migration.py"))}
"""Files by module name, for scripts that were written for another library."""
