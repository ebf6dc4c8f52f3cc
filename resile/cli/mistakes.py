"""What a cluster or this machine has against a command, in a sentence: nobody should read a
traceback for it."""

from __future__ import annotations

from pathlib import Path

from resile.platform.kubernetes.errors import ApiError, KubeError
from resile.wire.statedir import StateDirError

__all__ = ["sentence_for"]

UNAUTHORIZED = 401


def sentence_for(error: Exception) -> str | None:
    """What to tell the user; None for what is nobody's doing but ours."""
    if isinstance(error, FileNotFoundError) and not _has_working_directory():
        return "the working directory was deleted; change to one that exists"
    if isinstance(error, StateDirError):
        return str(error)
    if not isinstance(error, KubeError):
        return None
    if isinstance(error, ApiError) and error.status == UNAUTHORIZED:
        return (
            "the cluster does not know you (Unauthorized): the credentials of this context are "
            "wrong or have expired"
        )
    return str(error)


def _has_working_directory() -> bool:
    try:
        return Path.cwd().is_dir()
    except FileNotFoundError:
        return False
