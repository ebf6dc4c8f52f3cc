"""What can go wrong in a migration.

CheckpointError (of resile.checkpoint)
├── MigrationMistake   the script uses the migrator in a way that cannot work
├── MigrationDamaged   migration.pth is not what a save wrote
└── MigrationRefused   another worker could not load it, so nobody did
"""

from __future__ import annotations

from resile.checkpoint.errors import CheckpointError

__all__ = ["MigrationDamaged", "MigrationMistake", "MigrationRefused"]


class MigrationMistake(CheckpointError):
    """The script asks for what cannot be. Says what would be right."""


class MigrationDamaged(CheckpointError):
    """The file is not what a save wrote. Names it."""


class MigrationRefused(CheckpointError):
    """Another worker could not load the file. Names the worker and its reason."""
