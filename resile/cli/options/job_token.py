"""The token in a job's folder, used if the user gives none."""

from __future__ import annotations

from pathlib import Path

from resile.launch.state_dir import StateDirError, private_folder
from resile.wire.auth import AuthError, shared_token

__all__ = ["kept_token"]


def kept_token(folder: Path) -> str:
    """Return the token in a job's folder, created on first use.

    Raises StateDirError for one that cannot be used, not a usage error: the flags are right.
    """
    try:
        return shared_token(private_folder(folder) / "token")
    except AuthError as error:
        raise StateDirError(str(error)) from None
