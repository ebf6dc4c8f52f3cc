"""Build the pod of a node from the role's template. Pure.

What the user wrote in the template stays, including fields that are unknown here; the manifest's
own fields take precedence. The container that trains is the template's first: sidecars are left
alone. A pod is never restarted in place: a node that ended is replaced by one with a new id, so
that late messages of the dead one can be recognised.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

from resile.control.actions import StartNode
from resile.group_name import GROUP_VARIABLE
from resile.job.addresses import Addresses, NodeSlot, address_variables
from resile.job.manifest.pod_checks import (
    ADDRESSES_PATH,
    ADDRESSES_VOLUME,
    SHARED_MEMORY,
    SHARED_MEMORY_PATH,
    has_shared_memory,
)
from resile.job.naming import addresses_map_name, hostname, nodes_service_name
from resile.job.spec.cluster import GangPolicy
from resile.job.spec.job import ElasticJob
from resile.job.spec.role import NodeResources, RoleKind, RoleSpec
from resile.operator.build.gang import GATED, group_labels
from resile.operator.build.labels import DEFAULT_CONTAINER, node_labels, owner

__all__ = ["ADDRESSES_KEY", "MAIN_CONTAINER", "REASON", "merged_resources", "build_node_pod"]

ADDRESSES_KEY = "addresses.json"
"""The name of the file with the addresses, in the ConfigMap."""

MAIN_CONTAINER = "node"
"""The name of the container where the template does not give one."""

REASON = "resile.dev/reason"
"""An annotation: the reason why the node was started."""

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def build_node_pod(
    job: ElasticJob,
    order: StartNode,
    *,
    uid: str,
    environment: Sequence[Mapping[str, Any]],
    avoid: Sequence[str] = (),
    addresses: Addresses | None = None,
) -> dict[str, Any]:
    """Return the pod to create. ``environment``: variables besides the manifest's, in Kubernetes'
    notation; ``avoid``: machines that it should not run on; ``addresses``: of all nodes, in a job
    that has them."""
    role = job.spec.roles[order.node.role]
    template = copy.deepcopy(role.template)
    spec = _Spec(job, role, order, addresses).filled(
        template.get("spec") or {}, environment=environment, avoid=avoid
    )
    main = spec["containers"][0]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(job, order, template.get("metadata") or {}, uid=uid, main=main),
        "spec": spec,
    }


def _metadata(
    job: ElasticJob, order: StartNode, template: Mapping[str, Any], *, uid: str, main: str
) -> dict[str, Any]:
    labels = {**group_labels(job), **node_labels(job.metadata.name, order.node)}
    annotations = {REASON: order.reason, DEFAULT_CONTAINER: main}
    return {
        "name": order.node.name,
        "namespace": job.metadata.namespace,
        "labels": {**(template.get("labels") or {}), **labels},
        "annotations": {**(template.get("annotations") or {}), **annotations},
        "ownerReferences": [owner(job, uid)],
    }


class _Spec:
    """Completes a pod's spec."""

    def __init__(
        self, job: ElasticJob, role: RoleSpec, order: StartNode, addresses: Addresses | None
    ) -> None:
        self._job = job
        self._role = role
        self._order = order
        self._addresses = addresses

    def filled(
        self,
        spec: dict[str, Any],
        *,
        environment: Sequence[Mapping[str, Any]],
        avoid: Sequence[str],
    ) -> dict[str, Any]:
        role, order = self._role, self._order
        main, *sidecars = spec.get("containers") or [{}]
        spec["containers"] = [self._container(main, environment), *sidecars]
        spec["restartPolicy"] = "Never"
        spec["terminationGracePeriodSeconds"] = math.ceil(order.grace_seconds)
        # The rank's, not the node's: a replacement has the address of its predecessor.
        rank_host = hostname(self._job, order.node.role, order.node.rank)
        spec["hostname"] = spec.get("hostname") or rank_host
        spec["subdomain"] = spec.get("subdomain") or nodes_service_name(self._job)
        # Otherwise a Service that happens to be called master would set MASTER_PORT.
        spec.setdefault("enableServiceLinks", False)
        if order.priority.class_name:
            spec["priorityClassName"] = order.priority.class_name
        if role.service_account is not None:
            spec["serviceAccountName"] = role.service_account
        if role.node_selector:
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), **role.node_selector}
        secrets = [{"name": name} for name in role.image_pull_secrets]
        known = spec.get("imagePullSecrets") or []
        _extend(spec, "imagePullSecrets", [one for one in secrets if one not in known])
        _extend(spec, "tolerations", role.tolerations)
        _extend(spec, "volumes", [*role.volumes, *self._shared_memory(main)])
        if self._addresses is not None:
            # Optional: a node that does not need it must not wait for it.
            source = {"name": addresses_map_name(self._job), "optional": True}
            _extend(spec, "volumes", [{"name": ADDRESSES_VOLUME, "configMap": source}])
        if self._job.spec.gang_scheduling is GangPolicy.SCHEDULING_GATES:
            _extend(spec, "schedulingGates", [GATED])
        if avoid:
            _avoid(spec, avoid)
        return spec

    def _container(
        self, main: dict[str, Any], environment: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        role, order = self._role, self._order
        main["name"] = main.get("name") or MAIN_CONTAINER
        if role.image is not None:
            main["image"] = role.image
        if role.image_pull_policy is not None:
            main["imagePullPolicy"] = role.image_pull_policy
        main.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")  # shown to users
        if order.command:
            main["command"] = list(order.command)
            main.pop("args", None)
        if order.working_dir is not None:
            main["workingDir"] = order.working_dir
        own = [{"name": name, "value": value} for name, value in order.env.items()]
        main["env"] = _environment(
            main.get("env") or [], environment, own, _identity(order), self._told_addresses()
        )
        main["resources"] = merged_resources(main.get("resources") or {}, order.resources)
        _extend(main, "volumeMounts", role.volume_mounts)
        if has_shared_memory(role):
            mount = {"name": SHARED_MEMORY, "mountPath": SHARED_MEMORY_PATH}
            _extend(main, "volumeMounts", [mount])
        if self._addresses is not None:
            file = {"name": ADDRESSES_VOLUME, "mountPath": ADDRESSES_PATH, "readOnly": True}
            _extend(main, "volumeMounts", [file])
        if order.ports:
            self._listen(main)
        return main

    def _listen(self, main: dict[str, Any]) -> None:
        """Declare the role's ports besides the template's, and give a server a readiness probe so
        that others wait until it listens."""
        ports = self._order.ports
        others = [
            one
            for one in main.get("ports") or ()
            if one.get("name") not in ports and one.get("containerPort") not in ports.values()
        ]
        ours = [{"name": name, "containerPort": number} for name, number in ports.items()]
        main["ports"] = [*others, *ours]
        serves = self._job.spec.kind_of(self._order.node.role) is RoleKind.SERVER
        if serves and main.get("readinessProbe") is None:
            first = next(iter(ports.values()))
            main["readinessProbe"] = {"tcpSocket": {"port": first}, "periodSeconds": 1}

    def _told_addresses(self) -> list[dict[str, str]]:
        if self._addresses is None:
            return []
        node = self._order.node
        variables = address_variables(
            self._addresses,
            NodeSlot(role=node.role, rank=node.rank),
            file=f"{ADDRESSES_PATH}/{ADDRESSES_KEY}",
        )
        return [{"name": name, "value": value} for name, value in variables.items()]

    def _shared_memory(self, main: Mapping[str, Any]) -> list[dict[str, Any]]:
        """A tmpfs for /dev/shm: DataLoader workers and NCCL need more than the 64 MB that
        containers get. It is as large as the memory limit, which includes it."""
        if not has_shared_memory(self._role):
            return []
        size = self._role.shared_memory
        if size is None:
            size = main["resources"].get("limits", {}).get("memory")
        limit = {} if size is None else {"sizeLimit": str(size)}
        return [{"name": SHARED_MEMORY, "emptyDir": {"medium": "Memory", **limit}}]


def _identity(order: StartNode) -> list[dict[str, str]]:
    return [
        {"name": "RESILE_NODE_NAME", "value": order.node.name},
        {"name": "RESILE_NODE_RANK", "value": str(order.node.rank)},
        {"name": "RESILE_NODE_ID", "value": str(order.node.id)},
        {"name": "RESILE_ROLE", "value": order.node.role},
        *([{"name": GROUP_VARIABLE, "value": order.group}] if order.group else []),
    ]


def _environment(*parts: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Merge variables; of two with one name the later is used."""
    merged: dict[str, dict[str, Any]] = {}
    for variable in (variable for part in parts for variable in part):
        merged[variable["name"]] = dict(variable)
    return list(merged.values())


def merged_resources(written: Mapping[str, Any], ours: NodeResources) -> dict[str, Any]:
    """Return a template's resources, overridden by the manifest's own, amount by amount."""
    requests = {**(written.get("requests") or {}), **ours.requests}
    limits = {**(written.get("limits") or {}), **ours.limits}
    amounts = {"requests": requests, "limits": limits}
    rest = {name: value for name, value in written.items() if name not in amounts}
    return {**rest, **{name: amount for name, amount in amounts.items() if amount}}


def _extend(target: dict[str, Any], name: str, more: Sequence[Any]) -> None:
    if more:
        target[name] = [*(target.get(name) or []), *more]


def _avoid(spec: dict[str, Any], hosts: Sequence[str]) -> None:
    """Keep the pod off some machines, in addition to the user's affinity. By the machines' names:
    the hostname label usually repeats a name but may differ."""
    affinity = spec["affinity"] = spec.get("affinity") or {}
    machines = affinity["nodeAffinity"] = affinity.get("nodeAffinity") or {}
    elsewhere = [{"key": "metadata.name", "operator": "NotIn", "values": [one]} for one in hosts]
    required = machines.get(_REQUIRED)
    if required is None:
        machines[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": elsewhere}]}
        return
    # Terms are alternatives, so each of them needs it; but an empty one matches no machine, and
    # must not become one that matches all the others.
    for term in required.get("nodeSelectorTerms") or ():
        if term.get("matchExpressions") or term.get("matchFields"):
            _extend(term, "matchFields", elsewhere)
