"""What a manifest says about running on a cluster, beside what each role says for itself.

None of it has a meaning on one machine, where it is read, checked and left alone.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from resile.job.fields import ManifestStruct, Text
from resile.job.role import ResourceSpec

__all__ = ["GangPolicy", "MasterSpec", "MasterStorage", "managed_elsewhere"]

OPERATOR = "resile.dev/operator"
"""The name under which ``managedBy`` knows our own operator."""


class GangPolicy(str, Enum):
    """Whether a job's nodes are placed together or each for itself."""

    NONE = "None"
    SCHEDULING_GATES = "SchedulingGates"
    """Every pod is created with a gate; the gates are lifted once the min nodes exist."""

    POD_GROUP = "PodGroup"
    """A PodGroup of scheduling.x-k8s.io asks the scheduler for min nodes at once."""


class MasterStorage(ManifestStruct, frozen=True, kw_only=True):
    """Where a master keeps its store, so that its replacement goes on from it."""

    claim: Annotated[
        Text, Meta(description="The name of an existing PersistentVolumeClaim for its store.")
    ]


class MasterSpec(ManifestStruct, frozen=True, kw_only=True):
    """The pod of the job's master."""

    image: Annotated[
        Text | None,
        Meta(description="Container image. When left out the template's, or the operator's own."),
    ] = None
    resources: Annotated[ResourceSpec, Meta(description="What the pod needs.")] = ResourceSpec()
    storage: Annotated[
        MasterStorage | None,
        Meta(
            description="A volume for its store. Without one a master that is replaced goes on "
            "from what the nodes hold."
        ),
    ] = None
    priority_class: Annotated[
        Text | None, Meta(description="The name of the pod's PriorityClass.")
    ] = None
    tls: Annotated[
        bool,
        Meta(
            description="Whether agents and the operator talk TLS to it, with a certificate that "
            "is made for the job. It is read when the job's Secret is made."
        ),
    ] = True
    template: Annotated[
        dict[str, Any], Meta(description="A Kubernetes pod template, kept as it is.")
    ] = msgspec.field(default_factory=dict)


def managed_elsewhere(manager: str | None) -> bool:
    """Whether ``spec.managedBy`` names a controller other than Resile's operator."""
    return manager not in (None, OPERATOR)
