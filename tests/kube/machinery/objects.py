"""Small objects to write."""

from __future__ import annotations

from typing import Any

from resile.kube.resources import KubeObject, Resource

WIDGETS = Resource("example.com", "v1", "Widget", "widgets")
"""A custom kind with a status and a schema that preserves unknown fields."""


def config_map(name: str, **data: str) -> KubeObject:
    return {"metadata": {"name": name}, "data": data}


def labelled(obj: KubeObject, **labels: str) -> KubeObject:
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


def pod(name: str, **spec: Any) -> KubeObject:
    """A pod; there is no kubelet to run it, so it stays as it is."""
    containers = [{"name": "main", "image": "none"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def widget(name: str, **spec: Any) -> KubeObject:
    return {"metadata": {"name": name}, "spec": spec}


def widget_definition() -> KubeObject:
    properties = {
        "spec": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"size": {"type": "integer", "minimum": 0}},
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    return {
        "metadata": {"name": f"{WIDGETS.plural}.{WIDGETS.group}"},
        "spec": {
            "group": WIDGETS.group,
            "scope": "Namespaced",
            "names": {"kind": WIDGETS.kind, "plural": WIDGETS.plural},
            "versions": [version],
        },
    }
