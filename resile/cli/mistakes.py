"""What a cluster has against a command, in a sentence: nobody should read a traceback for it."""

from __future__ import annotations

from resile.platform.kubernetes.errors import ApiError, KubeError

__all__ = ["sentence_for"]

UNAUTHORIZED = 401


def sentence_for(error: Exception) -> str | None:
    """What to tell the user; None for what is no user's or cluster's doing."""
    if not isinstance(error, KubeError):
        return None
    if isinstance(error, ApiError) and error.status == UNAUTHORIZED:
        return (
            "the cluster does not know you (Unauthorized): the credentials of this context are "
            "wrong or have expired"
        )
    return str(error)
