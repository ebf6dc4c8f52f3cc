"""Turn errors of the client, of the cluster and of this machine into one-line messages."""

from __future__ import annotations

from pathlib import Path

from resile.client.errors import ClientError
from resile.client.find import ClusterUnavailable
from resile.platform.kubernetes.errors import ApiError, KubeError
from resile.platform.local.jobfolder import JobFolderError
from resile.wire.statedir import StateDirError

__all__ = ["sentence_for"]

UNAUTHORIZED = 401


def sentence_for(error: Exception) -> str | None:
    """Return the message for the user; None for a bug of ours."""
    if isinstance(error, FileNotFoundError) and not _has_working_directory():
        return "the working directory was deleted; change to one that exists"
    if isinstance(error, ClusterUnavailable):
        return f"{sentence_for(error.cause)}; and {error.here}"
    if isinstance(error, (StateDirError, JobFolderError, ClientError)):
        return str(error)
    if not isinstance(error, KubeError):
        return None
    if isinstance(error, ApiError) and error.status == UNAUTHORIZED:
        return (
            "the cluster refused the credentials (Unauthorized): those of this context are wrong "
            "or have expired"
        )
    return str(error)


def _has_working_directory() -> bool:
    try:
        return Path.cwd().is_dir()
    except FileNotFoundError:
        return False
