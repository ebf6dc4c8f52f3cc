"""The API resources that are read and written here: group, version, kind and path of each.

Objects themselves are plain dicts, exactly as the API server sends them. A user's pod template
may contain fields that a model of ours would not know, and dropping them would silently break
the user's pods. Every version here is served by Kubernetes 1.20 and by current releases.

resourceVersions are compared as numbers. For most of its life Kubernetes called them opaque;
they have always been revisions of etcd, one counter for the whole cluster, and newer releases
guarantee that they can be compared. One that is not an integer cannot be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

__all__ = [
    "ACCESS_REVIEWS",
    "CONFIG_MAPS",
    "CUSTOM_RESOURCES",
    "ELASTIC_JOBS",
    "EVENTS",
    "Key",
    "KubeObject",
    "LEASES",
    "NAMESPACES",
    "NODES",
    "PODS",
    "PRIORITY_CLASSES",
    "Resource",
    "SECRETS",
    "SERVICES",
    "is_older",
    "key_of",
]


def is_older(one: str, other: str) -> bool:
    """Return whether a resourceVersion is certainly older than another."""
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)


KubeObject = dict[str, Any]

Key = tuple[str, str]
"""Namespace and name. The namespace of an object that has none is empty."""


@dataclass(frozen=True)
class Resource:
    """An API resource; ``group`` is empty for the core API."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The value of an object's ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def collection(self, namespace: str | None = None) -> str:
        """Return the path of all objects of one namespace, or of all namespaces."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            return f"{root}/namespaces/{quote(namespace, safe='')}/{self.plural}"
        return f"{root}/{self.plural}"

    def path(self, name: str, *, namespace: str | None = None, subresource: str = "") -> str:
        """Return the path of one object, or of a subresource of it."""
        path = f"{self.collection(namespace)}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path


CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
EVENTS = Resource("", "v1", "Event", "events")
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
NODES = Resource("", "v1", "Node", "nodes", namespaced=False)
PODS = Resource("", "v1", "Pod", "pods")
SECRETS = Resource("", "v1", "Secret", "secrets")
SERVICES = Resource("", "v1", "Service", "services")
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", namespaced=False
)
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    namespaced=False,
)
CUSTOM_RESOURCES = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
ELASTIC_JOBS = Resource("resile.dev", "v1alpha1", "ElasticJob", "elasticjobs")


def key_of(obj: KubeObject) -> Key:
    """Return namespace and name of an object."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
