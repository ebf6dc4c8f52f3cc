"""The environment variables of a job's nodes on a cluster besides the manifest's. Pure."""

from __future__ import annotations

from typing import Any

from resile.job.spec import ElasticJob
from resile.platform.kubernetes.attendants import (
    authority_variable,
    master_endpoint,
    token_variable,
)
from resile.platform.rendezvous import node_environments

__all__ = ["node_variables"]


def node_variables(job: ElasticJob) -> dict[str, list[dict[str, Any]]]:
    """Return the variables of the nodes of each role, in Kubernetes' notation."""
    told = node_environments(job.metadata.name, job.spec, master=master_endpoint(job))
    secret = [token_variable(job), authority_variable(job)]
    return {
        role: [*({"name": key, "value": value} for key, value in each.items()), *secret]
        for role, each in told.items()
    }
