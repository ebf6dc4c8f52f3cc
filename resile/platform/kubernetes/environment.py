"""What a job's nodes are told on a cluster besides the manifest's variables. Pure."""

from __future__ import annotations

from typing import Any

from resile.job.spec import ElasticJob
from resile.platform.kubernetes.attendants import (
    authority_variable,
    master_endpoint,
    token_variable,
)
from resile.platform.rendezvous import node_environments, roles_apart
from resile.wire.endpoint import Endpoint

__all__ = ["node_variables"]

APART = Endpoint("127.0.0.1", 29401)
"""Where a node of a role that does not train with the others meets: itself."""


def node_variables(job: ElasticJob) -> dict[str, list[dict[str, Any]]]:
    """For the nodes of each role, in Kubernetes' notation."""
    spec, name = job.spec, job.metadata.name
    told = node_environments(
        name,
        spec,
        master=master_endpoint(job),
        apart=dict.fromkeys(roles_apart(spec), APART),
    )
    secret = [token_variable(name), authority_variable(name)]
    apart = [token_variable(name)]
    return {
        role: [
            *({"name": key, "value": value} for key, value in each.items()),
            *(apart if role in roles_apart(spec) else secret),
        ]
        for role, each in told.items()
    }
