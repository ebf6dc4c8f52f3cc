"""Small objects to write, and waiting for their changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from resile.kube.resources import KubeObject, Resource

WIDGETS = Resource("example.com", "v1", "Widget", "widgets")
"""A custom kind with a status and a schema that preserves unknown fields."""

PATIENCE = 30.0
"""The timeout of a wait, generous for a busy machine."""


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


async def eventually(condition: Callable[[], Any], what: str, *, timeout: float = PATIENCE) -> None:
    """Wait until ``condition`` is true."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"timed out after {timeout:g} s waiting for {what}")
        await asyncio.sleep(0.01)
