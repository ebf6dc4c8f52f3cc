"""Where workers find ``import migration``, if no module of the user's has that name."""

from __future__ import annotations

from pathlib import Path

__all__ = ["LATE_MODULES"]

LATE_MODULES = {"migration": str(Path(__file__).with_name("migration.py"))}
"""Files by name of module; scripts that were written for another library import it so."""
