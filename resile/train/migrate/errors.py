"""Errors of a migration.

CheckpointError (of resile.checkpoint)
├── MigrationMistake   the script uses the migrator in a way that cannot work
├── MigrationDamaged   migration.pth was not written by a save, or is damaged
└── MigrationRefused   another worker could not load it, so none did
"""

from __future__ import annotations

from resile.checkpoint.errors import CheckpointError

__all__ = ["MigrationDamaged", "MigrationMistake", "MigrationRefused"]


class MigrationMistake(CheckpointError):
    """Invalid use of the migrator. Says what would be right."""


class MigrationDamaged(CheckpointError):
    """The file was not written by a save, or is damaged. Names it."""


class MigrationRefused(CheckpointError):
    """Another worker could not load the file. Names the worker and its reason."""
