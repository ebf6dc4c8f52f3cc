"""The objects that a cluster would have for a job, made by the operator's own functions. Pure.

The controller decides on a simulated cluster where every pod is ready at once, so that nodes which
wait for other roles are shown, too.
"""

from __future__ import annotations

from datetime import datetime, timezone

from resile.client.cluster.apply import object_of
from resile.control.actions import StartNode
from resile.control.observed import Observed, ObservedNode
from resile.control.reconcile import reconcile
from resile.job.addresses import cluster_addresses, has_addresses
from resile.job.naming import rank_service_name
from resile.job.node import NodePhase
from resile.job.spec.job import ElasticJob
from resile.job.status import JobStatus
from resile.kube.resources import KubeObject
from resile.operator.build import master as attendants
from resile.operator.build.gang import POD_GROUPS, build_pod_group
from resile.operator.build.master import JobSecret, node_variables
from resile.operator.build.pods import build_node_pod

__all__ = ["OPERATORS_IMAGE", "preview"]

OPERATORS_IMAGE = "the-operators-own-image"
"""A placeholder for the image of a master whose manifest names none: only the operator knows it."""

UNKNOWN_UID = "00000000-0000-0000-0000-000000000000"
REDACTED = "(random, made by the operator)"


def preview(job: ElasticJob) -> list[KubeObject]:
    """Return the job and all objects that the operator would create for it, in that order."""
    objects = [object_of(job)]
    if job.spec.suspend or job.spec.managed_elsewhere:
        return objects
    variables = node_variables(job)
    objects += [
        _secret(job),
        attendants.build_master_service(job, uid=UNKNOWN_UID),
        attendants.build_nodes_service(job, uid=UNKNOWN_UID),
        *_group(job),
        attendants.build_master_pod(
            job, uid=UNKNOWN_UID, image=OPERATORS_IMAGE, serial=0, tls=job.spec.master.tls
        ),
    ]
    addresses = cluster_addresses(job, JobStatus()) if has_addresses(job.spec) else None
    if addresses is not None:
        objects.append(attendants.build_addresses_map(job, addresses, uid=UNKNOWN_UID))
    orders = _orders(job)
    objects += [service for order in orders for service in _rank_service(job, order)]
    objects += [
        build_node_pod(
            job,
            order,
            uid=UNKNOWN_UID,
            environment=variables[order.node.role],
            addresses=addresses,
        )
        for order in orders
    ]
    return objects


def _rank_service(job: ElasticJob, order: StartNode) -> list[KubeObject]:
    role, rank = order.node.role, order.node.rank
    name = rank_service_name(job, role, rank)
    if name is None:
        return []
    return [attendants.build_rank_service(job, name=name, role=role, rank=rank, uid=UNKNOWN_UID)]


def _secret(job: ElasticJob) -> KubeObject:
    """Return the Secret, without its secret values."""
    made = (REDACTED,) * 3 if job.spec.master.tls else ()
    secret = attendants.build_token_secret(job, uid=UNKNOWN_UID, secret=JobSecret(REDACTED, *made))
    return {**secret, "stringData": dict.fromkeys(secret["stringData"], REDACTED)}


def _group(job: ElasticJob) -> list[KubeObject]:
    wanted = build_pod_group(job, uid=UNKNOWN_UID)
    head = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
    return [] if wanted is None else [{**head, **wanted}]


def _orders(job: ElasticJob) -> list[StartNode]:
    now = datetime.now(timezone.utc)
    status, orders = JobStatus(), list[StartNode]()
    for _ in range(1 + len(job.spec.roles)):  # each pass starts at least one more role
        nodes = tuple(
            ObservedNode(node=one.node, phase=NodePhase.RUNNING, ready=True) for one in orders
        )
        decision = reconcile(job, status, Observed(nodes=nodes), now)
        status = decision.status
        orders += [action for action in decision.actions if isinstance(action, StartNode)]
    return orders
