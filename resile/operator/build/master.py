"""Build the objects that a job has besides its nodes: the master's pod and Service, the Secret,
Services and addresses of the nodes; and the variables by which nodes reach the master. Pure.

The master runs as an unprivileged user without a service account: it does not use the API
server. Its store is on the volume that the user names, or in the pod, where it survives the
process but not the pod; then a new master recovers from what the agents hold.

The Secret holds the token, and the master's certificate and key. Nodes get the token and the
authority's certificate, only the master gets the key. A job whose Secret has no certificate runs
without TLS: ``spec.master.tls`` is false, or the Secret was created by a version without TLS.
"""

from __future__ import annotations

import base64
import binascii
import copy
import math
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from resile.job.addresses import Addresses, encode_addresses
from resile.job.manifest.pod_checks import MASTER_VOLUMES
from resile.job.naming import (
    addresses_map_name,
    master_pod_name,
    master_service_name,
    nodes_service_name,
    token_secret_name,
)
from resile.job.spec.job import ElasticJob
from resile.launch.master_process import AFTER_ROUND_VARIABLE, conf_text
from resile.operator.build.labels import (
    COMPONENT,
    DEFAULT_CONTAINER,
    JOB,
    NODE,
    RANK,
    ROLE,
    master_labels,
    owner,
    rank_labels,
)
from resile.operator.build.pods import ADDRESSES_KEY, merged_resources
from resile.platform.node_env import node_environments
from resile.wire.auth import (
    AUTHORITY_VARIABLE,
    TOKEN_VARIABLE,
    AuthError,
    client_tls,
    read_token_of,
)
from resile.wire.endpoint import DEFAULT_PORT, EVERY_ADDRESS, Endpoint

__all__ = [
    "AUTHORITY_KEY",
    "CERTIFICATE_KEY",
    "JobSecret",
    "KEY_KEY",
    "READ_TOKEN_KEY",
    "TOKEN_KEY",
    "authority_variable",
    "build_addresses_map",
    "build_master_pod",
    "build_master_service",
    "build_nodes_service",
    "build_rank_service",
    "build_token_secret",
    "master_endpoint",
    "master_hosts",
    "node_variables",
    "read_secret",
    "token_variable",
]


TOKEN_KEY = "token"
READ_TOKEN_KEY = "read-token"
"""Derived from the token, to be mounted alone; Secrets of earlier versions have none."""
AUTHORITY_KEY = "ca.crt"
CERTIFICATE_KEY = "tls.crt"
KEY_KEY = "tls.key"


@dataclass(frozen=True)
class JobSecret:
    """A job's credentials. Certificates and key are PEM texts, and empty without TLS."""

    token: str
    authority: str = ""
    certificate: str = ""
    key: str = ""

    @property
    def has_tls(self) -> bool:
        """True if the master serves TLS."""
        return bool(self.certificate)

    @property
    def data(self) -> dict[str, str]:
        """The data of the Secret."""
        held = {
            TOKEN_KEY: self.token,
            READ_TOKEN_KEY: read_token_of(self.token),
            AUTHORITY_KEY: self.authority,
            CERTIFICATE_KEY: self.certificate,
            KEY_KEY: self.key,
        }
        return {key: text for key, text in held.items() if text}

    def client_context(self) -> ssl.SSLContext | None:
        """Return the TLS settings for the master at any address: the authority signed only its
        certificate, so names need not be compared. Raises :class:`ValueError` if it is invalid."""
        context = client_tls(self.authority or None)
        if context is not None:
            context.check_hostname = False
        return context


def read_secret(secret: Mapping[str, Any]) -> JobSecret:
    """Read a Secret as the API server returns it; raises :class:`ValueError` if it is invalid."""
    data = secret.get("data") or {}
    try:
        held = {key: base64.b64decode(text, validate=True).decode() for key, text in data.items()}
    except (TypeError, binascii.Error, UnicodeDecodeError):
        raise ValueError("its data is not text") from None
    if not held.get(TOKEN_KEY):
        raise ValueError(f"it has no {TOKEN_KEY}")
    found = JobSecret(
        token=held[TOKEN_KEY],
        authority=held.get(AUTHORITY_KEY, ""),
        certificate=held.get(CERTIFICATE_KEY, ""),
        key=held.get(KEY_KEY, ""),
    )
    if len({bool(found.authority), bool(found.certificate), bool(found.key)}) > 1:
        raise ValueError(f"it needs all of {AUTHORITY_KEY}, {CERTIFICATE_KEY}, {KEY_KEY}, or none")
    try:
        found.client_context()
    except AuthError:
        raise ValueError(f"its {AUTHORITY_KEY} is not a certificate") from None
    return found


CONTAINER = "master"
_NOBODY = 65532
_GRACE_SECONDS = 5
"""Added to the time that nodes which leave together with their master have to save."""


def build_token_secret(job: ElasticJob, *, uid: str, secret: JobSecret) -> dict[str, Any]:
    """Return the Secret with the job's token and the master's certificate: only the job's pods, and
    those who may read Secrets, can talk to its master."""
    name = token_secret_name(job)
    return {
        **_object("v1", "Secret", job, name=name, uid=uid),
        "type": "Opaque",
        "stringData": secret.data,
    }


def token_variable(job: ElasticJob) -> dict[str, Any]:
    """Return the variable that gives a pod the token."""
    source = {"name": token_secret_name(job), "key": TOKEN_KEY}
    return {"name": TOKEN_VARIABLE, "valueFrom": {"secretKeyRef": source}}


def authority_variable(job: ElasticJob) -> dict[str, Any]:
    """Return the variable with the authority that a pod trusts; unset without TLS."""
    source = {"name": token_secret_name(job), "key": AUTHORITY_KEY, "optional": True}
    return {"name": AUTHORITY_VARIABLE, "valueFrom": {"secretKeyRef": source}}


def master_hosts(job: ElasticJob) -> tuple[str, ...]:
    """Return the names of the master's service, for its certificate."""
    service = master_service_name(job)
    spaced = f"{service}.{job.metadata.namespace}"
    return (f"{spaced}.svc", f"{spaced}.svc.cluster.local", spaced, service)


def master_endpoint(job: ElasticJob) -> Endpoint:
    """Return the address at which agents reach the master."""
    return Endpoint(master_hosts(job)[0], DEFAULT_PORT)


def build_master_service(job: ElasticJob, *, uid: str) -> dict[str, Any]:
    """Return the Service of the master: a stable address once it is ready; agents retry until
    then."""
    return {
        **_object("v1", "Service", job, name=master_service_name(job), uid=uid),
        "spec": {
            "selector": master_labels(job.metadata.name),
            "ports": [_port("master")],
        },
    }


def build_nodes_service(job: ElasticJob, *, uid: str) -> dict[str, Any]:
    """Return the Service with names for the nodes, even before they are ready: they have a
    rendezvous before they train."""
    return {
        **_object("v1", "Service", job, name=nodes_service_name(job), uid=uid),
        "spec": {
            "clusterIP": "None",
            "selector": {JOB: job.metadata.name, COMPONENT: NODE},
            "ports": [_port("rendezvous"), *_node_ports(job)],
            "publishNotReadyAddresses": True,
        },
    }


def build_rank_service(
    job: ElasticJob, *, name: str, role: str, rank: int, uid: str
) -> dict[str, Any]:
    """Return the Service of one rank, whichever pod has it."""
    labels = rank_labels(job.metadata.name, role, rank)
    made = _object("v1", "Service", job, name=name, uid=uid)
    made["metadata"]["labels"] |= {ROLE: role, RANK: str(rank)}
    ports = job.spec.roles[role].ports
    return {
        **made,
        "spec": {
            "clusterIP": "None",
            "selector": labels,
            "ports": [_port(name, number) for name, number in ports.items()],
            "publishNotReadyAddresses": True,
        },
    }


def build_addresses_map(job: ElasticJob, addresses: Addresses, *, uid: str) -> dict[str, Any]:
    """Return the ConfigMap with the addresses of all nodes, which each node mounts as a file."""
    return {
        **_object("v1", "ConfigMap", job, name=addresses_map_name(job), uid=uid),
        "data": {ADDRESSES_KEY: encode_addresses(addresses).decode()},
    }


def build_master_pod(
    job: ElasticJob, *, uid: str, image: str, serial: int, tls: bool, after_round: int = 0
) -> dict[str, Any]:
    """Return the master's pod. ``image``: used unless the manifest or its template names one;
    ``tls``: whether the job's Secret has a certificate; ``after_round``: the last round of nodes
    that are still running from an earlier master."""
    template = copy.deepcopy(job.spec.master.template)
    spec = _master_spec(job, template.get("spec") or {}, image=image)
    main = spec["containers"][0]
    if after_round:
        # Not a flag: the manifest may name an older image, whose master would reject it.
        main["env"].append({"name": AFTER_ROUND_VARIABLE, "value": str(after_round)})
    if tls:
        _serve_tls(job, spec, main)
    name = master_pod_name(job, serial=serial)
    pod = _object("v1", "Pod", job, name=name, uid=uid)
    own, written = pod["metadata"], template.get("metadata") or {}
    own["labels"] = {**(written.get("labels") or {}), **master_labels(job.metadata.name)}
    own["annotations"] = {**(written.get("annotations") or {}), DEFAULT_CONTAINER: main["name"]}
    return {**pod, "spec": spec}


def _master_spec(job: ElasticJob, spec: dict[str, Any], *, image: str) -> dict[str, Any]:
    settings = job.spec.master
    main, *sidecars = spec.get("containers") or [{}]
    spec["containers"] = [_master_container(job, main, image=image), *sidecars]
    spec["restartPolicy"] = "Always"
    handover = math.ceil(job.spec.elasticity().leave_timeout)
    spec.setdefault("terminationGracePeriodSeconds", handover + _GRACE_SECONDS)
    spec.setdefault("automountServiceAccountToken", False)
    spec.setdefault("enableServiceLinks", False)
    spec.setdefault("securityContext", _as_nobody())
    if settings.priority_class is not None:
        spec["priorityClassName"] = settings.priority_class
    volume: dict[str, Any] = {"emptyDir": {}}
    if settings.storage is not None:
        volume = {"persistentVolumeClaim": {"claimName": settings.storage.claim}}
    spec["volumes"] = [
        *(spec.get("volumes") or []),
        {"name": "store", **volume},
        {"name": "tmp", "emptyDir": {}},
    ]
    return spec


def _serve_tls(job: ElasticJob, spec: dict[str, Any], main: dict[str, Any]) -> None:
    """Mount certificate and key into the master, and only there."""
    place = MASTER_VOLUMES["tls"]
    items = [{"key": key, "path": key} for key in (CERTIFICATE_KEY, KEY_KEY)]
    secret = {"secretName": token_secret_name(job), "items": items}
    spec["volumes"].append({"name": "tls", "secret": secret})
    main["volumeMounts"].append({"name": "tls", "mountPath": place, "readOnly": True})
    main["command"] += [
        *("--tls-cert", f"{place}/{CERTIFICATE_KEY}"),
        *("--tls-key", f"{place}/{KEY_KEY}"),
    ]
    if main["readinessProbe"] == _readiness():
        main["readinessProbe"]["httpGet"]["scheme"] = "HTTPS"


def _master_container(job: ElasticJob, main: dict[str, Any], *, image: str) -> dict[str, Any]:
    elasticity, settings = job.spec.elasticity(), job.spec.master
    main["name"] = main.get("name") or CONTAINER
    main["image"] = settings.image or main.get("image") or image
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
        token_variable(job),
        {"name": "HOME", "value": MASTER_VOLUMES["tmp"]},
    ]
    main.setdefault("ports", [{"name": "master", "containerPort": DEFAULT_PORT}])
    main.setdefault("readinessProbe", _readiness())
    main.setdefault("securityContext", _without_privileges())
    main.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")  # shown to users
    main["volumeMounts"] = [
        *(main.get("volumeMounts") or []),
        *({"name": name, "mountPath": MASTER_VOLUMES[name]} for name in ("store", "tmp")),
    ]
    main["resources"] = merged_resources(main.get("resources") or {}, settings.resources.resolved())
    return main


def _port(name: str, number: int = DEFAULT_PORT) -> dict[str, Any]:
    return {"name": name, "port": number, "targetPort": number}


def _node_ports(job: ElasticJob) -> list[dict[str, Any]]:
    """The ports of all roles. In a Service numbers and names are unique; roles may use one name for
    several numbers."""
    known = {DEFAULT_PORT: "rendezvous"}
    for role in job.spec.roles.values():
        for name, number in role.ports.items():
            if number not in known:
                known[number] = f"{name}-{number}" if name in known.values() else name
    return [_port(name, number) for number, name in known.items() if number != DEFAULT_PORT]


def _readiness() -> dict[str, Any]:
    return {"httpGet": {"path": "/healthz", "port": DEFAULT_PORT}, "periodSeconds": 1}


def _as_nobody() -> dict[str, Any]:
    """The security context that `restricted` namespaces require; the group is for the volume."""
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


def node_variables(job: ElasticJob) -> dict[str, list[dict[str, Any]]]:
    """Return the variables of the nodes of each role, in Kubernetes' notation."""
    environments = node_environments(job.metadata.name, job.spec, master=master_endpoint(job))
    secret = [token_variable(job), authority_variable(job)]
    return {
        role: [*({"name": key, "value": value} for key, value in each.items()), *secret]
        for role, each in environments.items()
    }
