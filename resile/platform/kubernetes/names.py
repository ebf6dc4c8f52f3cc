"""The names of what is made beside a job's nodes, and of the operator's Lease. Pure."""

from __future__ import annotations

from resile.job.spec import JobSpec

__all__ = ["OPERATOR_LEASE", "master_pod", "master_service", "nodes_service", "token_secret"]

OPERATOR_LEASE = "resile-operator"
"""The Lease that the leading operator holds."""


def master_service(job: str) -> str:
    """Where agents find the master, whichever pod it is in."""
    return f"{job}-master"


def master_pod(job: str, spec: JobSpec, *, serial: int) -> str:
    """The ``serial``-th pod of the master. A job may have a role of that name, whose nodes have
    the older right to it."""
    word = "coordinator" if "master" in spec.roles else "master"
    return f"{job}-{word}-{serial}"


def nodes_service(job: str) -> str:
    """A headless service, which gives each node a name in the cluster's DNS."""
    return f"{job}-nodes"


def token_secret(job: str) -> str:
    """Where the job's token lies."""
    return f"{job}-token"
