"""What a job has on a cluster beside its nodes: the master's pod and service, the token, names for
nodes. Pure: the objects as they are to be created.

The master runs as nobody in particular, without privileges and without a service account: it asks
nothing of the cluster. Its store lies on the volume the user names, or in the pod, where it
survives the process but not the pod; then a new master goes on from what the agents hold.
"""

from __future__ import annotations

import copy
import math
from typing import Any

from resile.job.podneeds import MASTER_VOLUMES
from resile.job.spec import ElasticJob
from resile.platform.kubernetes import names
from resile.platform.kubernetes.job_secret import (
    AUTHORITY_KEY,
    CERTIFICATE_KEY,
    KEY_KEY,
    TOKEN_KEY,
    JobSecret,
)
from resile.platform.kubernetes.labels import (
    COMPONENT,
    DEFAULT_CONTAINER,
    JOB,
    NODE,
    master_labels,
    owner,
)
from resile.platform.kubernetes.pods import merged_resources
from resile.wire.auth import AUTHORITY_VARIABLE, TOKEN_VARIABLE
from resile.wire.endpoint import DEFAULT_PORT, EVERY_ADDRESS, Endpoint
from resile.wire.launching import AFTER_ROUND_VARIABLE, conf_text

__all__ = [
    "authority_variable",
    "job_secret",
    "master_endpoint",
    "master_hosts",
    "master_pod",
    "master_service",
    "nodes_service",
    "token_variable",
]

CONTAINER = "master"
_NOBODY = 65532
_GRACE_SECONDS = 5
"""Beside the time that nodes which leave together with their master have to save."""


def job_secret(job: ElasticJob, *, uid: str, secret: JobSecret) -> dict[str, Any]:
    """The job's token and the master's certificate: only its own pods, and whoever may read
    secrets, can talk to its master."""
    name = names.token_secret(job.metadata.name)
    return {
        **_object("v1", "Secret", job, name=name, uid=uid),
        "type": "Opaque",
        "stringData": secret.data,
    }


def token_variable(job: str) -> dict[str, Any]:
    """How a pod is given the token."""
    source = {"name": names.token_secret(job), "key": TOKEN_KEY}
    return {"name": TOKEN_VARIABLE, "valueFrom": {"secretKeyRef": source}}


def authority_variable(job: str) -> dict[str, Any]:
    """How a pod is told whom to trust as its master; without a certificate, nothing."""
    source = {"name": names.token_secret(job), "key": AUTHORITY_KEY, "optional": True}
    return {"name": AUTHORITY_VARIABLE, "valueFrom": {"secretKeyRef": source}}


def master_hosts(job: ElasticJob) -> tuple[str, ...]:
    """The names of the master's service, for its certificate."""
    service = names.master_service(job.metadata.name)
    spaced = f"{service}.{job.metadata.namespace}"
    return (f"{spaced}.svc", f"{spaced}.svc.cluster.local", spaced, service)


def master_endpoint(job: ElasticJob) -> Endpoint:
    """Where agents find the master."""
    return Endpoint(master_hosts(job)[0], DEFAULT_PORT)


def master_service(job: ElasticJob, *, uid: str) -> dict[str, Any]:
    """A stable address for the master, once it answers; agents try until then."""
    return {
        **_object("v1", "Service", job, name=names.master_service(job.metadata.name), uid=uid),
        "spec": {
            "selector": master_labels(job.metadata.name),
            "ports": [_port("master")],
        },
    }


def nodes_service(job: ElasticJob, *, uid: str) -> dict[str, Any]:
    """Names for the nodes, also before they are ready: they meet before they train."""
    return {
        **_object("v1", "Service", job, name=names.nodes_service(job.metadata.name), uid=uid),
        "spec": {
            "clusterIP": "None",
            "selector": {JOB: job.metadata.name, COMPONENT: NODE},
            "ports": [_port("rendezvous")],
            "publishNotReadyAddresses": True,
        },
    }


def master_pod(
    job: ElasticJob, *, uid: str, image: str, serial: int, tls: bool, after_round: int = 0
) -> dict[str, Any]:
    """The master. ``image`` unless the manifest names one, itself or in its template; ``tls``:
    whether the job's Secret has a certificate for it; ``after_round``: where nodes that are still
    there had come to under an earlier one."""
    template = copy.deepcopy(job.spec.master.template)
    spec = _master_spec(job, template.get("spec") or {}, image=image)
    main = spec["containers"][0]
    if after_round:
        # Not a flag: the manifest may name an older image, whose master would not know it.
        main["env"].append({"name": AFTER_ROUND_VARIABLE, "value": str(after_round)})
    if tls:
        _serve_tls(job, spec, main)
    name = names.master_pod(job.metadata.name, job.spec, serial=serial)
    pod = _object("v1", "Pod", job, name=name, uid=uid)
    own, written = pod["metadata"], template.get("metadata") or {}
    own["labels"] = {**(written.get("labels") or {}), **master_labels(job.metadata.name)}
    own["annotations"] = {**(written.get("annotations") or {}), DEFAULT_CONTAINER: main["name"]}
    return {**pod, "spec": spec}


def _master_spec(job: ElasticJob, spec: dict[str, Any], *, image: str) -> dict[str, Any]:
    told = job.spec.master
    main, *sidecars = spec.get("containers") or [{}]
    spec["containers"] = [_master_container(job, main, image=image), *sidecars]
    spec["restartPolicy"] = "Always"
    handover = math.ceil(job.spec.elasticity().leave_timeout)
    spec.setdefault("terminationGracePeriodSeconds", handover + _GRACE_SECONDS)
    spec.setdefault("automountServiceAccountToken", False)
    spec.setdefault("enableServiceLinks", False)
    spec.setdefault("securityContext", _as_nobody())
    if told.priority_class is not None:
        spec["priorityClassName"] = told.priority_class
    volume: dict[str, Any] = {"emptyDir": {}}
    if told.storage is not None:
        volume = {"persistentVolumeClaim": {"claimName": told.storage.claim}}
    spec["volumes"] = [
        *(spec.get("volumes") or []),
        {"name": "store", **volume},
        {"name": "tmp", "emptyDir": {}},
    ]
    return spec


def _serve_tls(job: ElasticJob, spec: dict[str, Any], main: dict[str, Any]) -> None:
    """Give the master, and it alone, the key."""
    place = MASTER_VOLUMES["tls"]
    items = [{"key": key, "path": key} for key in (CERTIFICATE_KEY, KEY_KEY)]
    secret = {"secretName": names.token_secret(job.metadata.name), "items": items}
    spec["volumes"].append({"name": "tls", "secret": secret})
    main["volumeMounts"].append({"name": "tls", "mountPath": place, "readOnly": True})
    main["command"] += [
        *("--tls-cert", f"{place}/{CERTIFICATE_KEY}"),
        *("--tls-key", f"{place}/{KEY_KEY}"),
    ]
    if main["readinessProbe"] == _readiness():
        main["readinessProbe"]["httpGet"]["scheme"] = "HTTPS"


def _master_container(job: ElasticJob, main: dict[str, Any], *, image: str) -> dict[str, Any]:
    elasticity, told = job.spec.elasticity(), job.spec.master
    main["name"] = main.get("name") or CONTAINER
    main["image"] = told.image or main.get("image") or image
    main["command"] = [
        *("resile", "master"),
        *("--endpoint", str(Endpoint(EVERY_ADDRESS, DEFAULT_PORT))),
        *("--job", job.metadata.name),
        *("--nnodes", f"{elasticity.min_nodes}:{elasticity.max_nodes}"),
        *("--max-restarts", str(elasticity.max_restarts)),
        *("--rdzv-conf", conf_text(elasticity)),
        *("--store", f"{MASTER_VOLUMES['store']}/{job.metadata.name}.db"),
    ]
    main["env"] = [
        *(main.get("env") or []),
        token_variable(job.metadata.name),
        {"name": "HOME", "value": MASTER_VOLUMES["tmp"]},
    ]
    main.setdefault("ports", [{"name": "master", "containerPort": DEFAULT_PORT}])
    main.setdefault("readinessProbe", _readiness())
    main.setdefault("securityContext", _without_privileges())
    main.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")  # people are told
    main["volumeMounts"] = [
        *(main.get("volumeMounts") or []),
        *({"name": name, "mountPath": MASTER_VOLUMES[name]} for name in ("store", "tmp")),
    ]
    main["resources"] = merged_resources(main.get("resources") or {}, told.resources.resolved())
    return main


def _port(name: str) -> dict[str, Any]:
    return {"name": name, "port": DEFAULT_PORT, "targetPort": DEFAULT_PORT}


def _readiness() -> dict[str, Any]:
    return {"httpGet": {"path": "/healthz", "port": DEFAULT_PORT}, "periodSeconds": 1}


def _as_nobody() -> dict[str, Any]:
    """As namespaces whose pods are `restricted` want it; the group is for the volume's sake."""
    return {
        "runAsNonRoot": True,
        "runAsUser": _NOBODY,
        "fsGroup": _NOBODY,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def _without_privileges() -> dict[str, Any]:
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _object(version: str, kind: str, job: ElasticJob, *, name: str, uid: str) -> dict[str, Any]:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": job.metadata.namespace,
            "labels": {JOB: job.metadata.name},
            "ownerReferences": [owner(job, uid)],
        },
    }
