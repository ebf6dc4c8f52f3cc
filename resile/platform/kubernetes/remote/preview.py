"""What would be made of a job on a cluster: the very objects, by the very functions. Pure.

The controller decides on a cluster where every pod that is made runs at once, so that nodes which
wait for other roles are shown, too.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from resile.control.actions import StartNode
from resile.control.observed import Observed, ObservedNode
from resile.control.reconcile import reconcile
from resile.job.cluster import GangPolicy
from resile.job.node import NodePhase
from resile.job.spec import ElasticJob
from resile.job.status import JobStatus
from resile.platform.kubernetes import attendants
from resile.platform.kubernetes.kinds import KubeObject
from resile.platform.kubernetes.pods import node_pod
from resile.platform.kubernetes.remote.submitting import object_of
from resile.platform.rendezvous import node_environments, roles_apart
from resile.wire.endpoint import Endpoint

__all__ = ["OPERATORS_IMAGE", "node_variables", "preview"]

OPERATORS_IMAGE = "the-operators-own-image"
"""Stands for what only the operator knows: the image of a master whose manifest names none."""

UNKNOWN_UID = "00000000-0000-0000-0000-000000000000"
REDACTED = "(random, made by the operator)"

APART = Endpoint("127.0.0.1", 29401)
"""Where a node of a role that does not train with the others meets: itself."""


def preview(job: ElasticJob) -> list[KubeObject]:
    """The job and all that the operator would create for it, in that order."""
    objects = [object_of(job)]
    if job.spec.suspend or job.spec.managed_elsewhere:
        return objects
    variables = node_variables(job)
    gated = job.spec.gang_scheduling is GangPolicy.SCHEDULING_GATES
    objects += [
        attendants.token_secret(job, uid=UNKNOWN_UID, token=REDACTED),
        attendants.master_service(job, uid=UNKNOWN_UID),
        attendants.nodes_service(job, uid=UNKNOWN_UID),
        attendants.master_pod(job, uid=UNKNOWN_UID, image=OPERATORS_IMAGE, serial=0),
    ]
    objects += [
        node_pod(job, order, uid=UNKNOWN_UID, environment=variables[order.node.role], gated=gated)
        for order in _orders(job)
    ]
    return objects


def node_variables(job: ElasticJob) -> dict[str, list[dict[str, Any]]]:
    """What the nodes of each role are told besides the manifest's, in Kubernetes' notation."""
    spec, name = job.spec, job.metadata.name
    told = node_environments(
        name,
        spec,
        master=attendants.master_endpoint(job),
        apart=dict.fromkeys(roles_apart(spec), APART),
    )
    token = attendants.token_variable(name)
    return {
        role: [*({"name": key, "value": value} for key, value in each.items()), token]
        for role, each in told.items()
    }


def _orders(job: ElasticJob) -> list[StartNode]:
    now = datetime.now(timezone.utc)
    status, orders = JobStatus(), list[StartNode]()
    for _ in range(1 + len(job.spec.roles)):  # each look starts at least one more role
        nodes = tuple(ObservedNode(node=one.node, phase=NodePhase.RUNNING) for one in orders)
        decision = reconcile(job, status, Observed(nodes=nodes), now)
        status = decision.status
        orders += [action for action in decision.actions if isinstance(action, StartNode)]
    return orders
