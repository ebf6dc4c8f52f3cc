"""Manifest fields that apply only on a cluster, apart from those of each role.

On one machine they are parsed, checked and otherwise ignored.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from resile.job.spec.fields import ManifestStruct, Text
from resile.job.spec.role import ResourceSpec

__all__ = ["GangPolicy", "MasterSpec", "MasterStorage", "managed_elsewhere"]

OPERATOR = "resile.dev/operator"
"""The value of ``managedBy`` that means Resile's own operator."""


class GangPolicy(str, Enum):
    """How a job's nodes are placed: together, or each on its own."""

    NONE = "None"
    SCHEDULING_GATES = "SchedulingGates"
    """Every pod is created with a gate; the gates are lifted once the min nodes exist."""

    POD_GROUP = "PodGroup"
    """A PodGroup of scheduling.x-k8s.io asks the scheduler for min nodes at once."""


class MasterStorage(ManifestStruct, frozen=True, kw_only=True):
    """The volume of a master's store, from which its replacement continues."""

    claim: Annotated[
        Text, Meta(description="The name of an existing PersistentVolumeClaim for its store.")
    ]


class MasterSpec(ManifestStruct, frozen=True, kw_only=True):
    """The pod of the job's master."""

    image: Annotated[
        Text | None,
        Meta(description="Container image. Default: the template's, or the operator's own."),
    ] = None
    resources: Annotated[ResourceSpec, Meta(description="Resources of the pod.")] = ResourceSpec()
    storage: Annotated[
        MasterStorage | None,
        Meta(
            description="A volume for its store. Without one, a replaced master recovers its state "
            "from the nodes."
        ),
    ] = None
    priority_class: Annotated[
        Text | None, Meta(description="The name of the pod's PriorityClass.")
    ] = None
    tls: Annotated[
        bool,
        Meta(
            description="Whether agents and the operator connect to it with TLS. The certificate "
            "is created for the job, together with its Secret; later changes have no effect."
        ),
    ] = True
    template: Annotated[
        dict[str, Any], Meta(description="A Kubernetes pod template, passed on as is.")
    ] = msgspec.field(default_factory=dict)


def managed_elsewhere(manager: str | None) -> bool:
    """Whether ``spec.managedBy`` names a controller other than Resile's operator."""
    return manager not in (None, OPERATOR)
