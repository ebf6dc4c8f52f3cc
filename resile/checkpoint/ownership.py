"""Whose checkpoints lie in a folder: a second job must not take it over by mistake.

Jobs are known by their ids, and many ids name nothing: the default ``none``, the random ones of
``--standalone``, the numbers of a batch system. Under such an id the same job comes back under
another one each time it is submitted, so they are never refused. Only a job with a name is, in a
folder of a job with another name.
"""

from __future__ import annotations

import re

__all__ = ["TAKE_OVER_VARIABLE", "is_taken", "names_a_job", "refusal"]

TAKE_OVER_VARIABLE = "RESILE_TAKE_OVER"

_NO_NAME = re.compile(r"none|[0-9]*|[0-9a-f]{8,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)


def names_a_job(job: str) -> bool:
    """Whether an id was chosen for the job, and is the same when it is started again."""
    return _NO_NAME.fullmatch(job) is None


def is_taken(owner: str, job: str) -> bool:
    """Whether a folder with checkpoints of ``owner`` is not for ``job`` to train in."""
    return owner != job and names_a_job(owner) and names_a_job(job)


def refusal(address: str, owner: str, job: str) -> str:
    """What the user is told."""
    return (
        f"{address} holds checkpoints of job '{owner}', and this is job '{job}': it would go on "
        "from them, and remove them in time. Give this job a folder of its own. If it is to go on "
        f"with that training, take the folder over: Checkpointer(..., take_over=True), or "
        f"{TAKE_OVER_VARIABLE}=1 in the environment for this launch only"
    )
