"""The part of a manifest that a job's master needs for its decisions.

The master needs sizes, timeouts and which roles train. Templates, environments and volumes concern
only the controller, may be long, and may hold secrets.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec.structs import replace

from resile.job.cluster import MasterSpec
from resile.job.role import RoleSpec
from resile.job.spec import ElasticJob, Metadata

__all__ = ["outline"]

_SOME = "-"
"""Stands for a program, of which the master only needs to know that there is one."""


def outline(job: ElasticJob) -> dict[str, Any]:
    """A valid manifest with the same sizes, roles and timeouts."""
    roles = {name: _role(role) for name, role in job.spec.roles.items()}
    spec = replace(job.spec, roles=roles, master=MasterSpec())
    metadata = Metadata(name=job.metadata.name, namespace=job.metadata.namespace)
    data: dict[str, Any] = msgspec.to_builtins(replace(job, metadata=metadata, spec=spec))
    return data


def _role(role: RoleSpec) -> RoleSpec:
    trains = bool(role.script or role.module)
    return RoleSpec(
        kind=role.kind,
        replicas=role.replicas,
        node_unit=role.node_unit,
        script=_SOME if role.script else None,
        module=_SOME if role.module else None,
        command=() if trains else (_SOME,),
        depends_on=role.depends_on,
        ports=role.ports,
        success_policy=role.success_policy,
        failure_policy=role.failure_policy,
        required=role.required,
        termination_grace_period_seconds=role.termination_grace_period_seconds,
    )
