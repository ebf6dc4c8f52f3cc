"""Ownership of a checkpoint folder: a second job must not take it over by mistake.

Jobs are identified by their ids, and many ids are not names: the default ``none``, the random ones
of ``--standalone``, the numbers of a batch system. A job with such an id gets another one each time
it is submitted, so it is never refused. Only a job with a name is refused, in a folder of a job
with another name.
"""

from __future__ import annotations

import re

__all__ = ["TAKE_OVER_VARIABLE", "is_taken", "names_a_job", "refusal"]

TAKE_OVER_VARIABLE = "RESILE_TAKE_OVER"

_NO_NAME = re.compile(r"none|[0-9]*|[0-9a-f]{8,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.I)


def names_a_job(job: str) -> bool:
    """Whether an id is a chosen name, which stays the same when the job is restarted."""
    return _NO_NAME.fullmatch(job) is None


def is_taken(owner: str, job: str) -> bool:
    """Whether ``job`` must not train in a folder with checkpoints of ``owner``."""
    return owner != job and names_a_job(owner) and names_a_job(job)


def refusal(address: str, owner: str, job: str) -> str:
    """The error text for a folder that belongs to another job."""
    return (
        f"{address} holds checkpoints of job '{owner}', and this is job '{job}': it would continue "
        "from them, and prune them later. Give this job a folder of its own. To continue "
        f"that training on purpose, take the folder over: Checkpointer(..., take_over=True), or "
        f"{TAKE_OVER_VARIABLE}=1 in the environment for this launch only"
    )
