"""The CustomResourceDefinition of ElasticJob, generated from the types in ``job``.

``python -m resile.platform.kubernetes.crd`` prints it; deploy/crds holds that output, and a test
fails when it is out of date. What the schema cannot express (how fields relate, the names of
roles) our own validation checks later, and reports in a condition of the job.
"""

from __future__ import annotations

from typing import Any

import yaml

from resile.job.spec import API_VERSION, KIND, JobSpec, Metadata
from resile.job.status import JobStatus
from resile.platform.kubernetes.schema import structural_schema

__all__ = ["GROUP", "PLURAL", "VERSION", "custom_resource", "custom_resource_text"]

GROUP, _, VERSION = API_VERSION.partition("/")
SINGULAR = KIND.lower()
PLURAL = f"{SINGULAR}s"

_HEADER = "# Made by `python -m resile.platform.kubernetes.crd` from the types in resile/job.\n"

_COLUMNS = (
    ("Phase", "string", ".status.phase", "The job in one word"),
    ("Ready", "string", ".status.ready", "Nodes that run, of those wanted"),
    ("Restarts", "integer", ".status.restarts", "Nodes replaced so far"),
    ("Step", "integer", ".status.step", "The training step last heard of"),
    ("Throughput", "string", ".status.throughput", "How fast the training is"),
    ("Age", "date", ".metadata.creationTimestamp", "Time since the job was created"),
)


def custom_resource() -> dict[str, Any]:
    """Return the CustomResourceDefinition, for Kubernetes 1.16 and later."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": SINGULAR,
                "shortNames": ["ej"],
                "categories": ["all"],
            },
            "versions": [_version()],
        },
    }


def custom_resource_text() -> str:
    """Return the definition as the text of the file in deploy/crds."""
    data = custom_resource()
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return _HEADER + text


def _version() -> dict[str, Any]:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _whole_object()},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path, "description": meaning}
            for name, kind, path, meaning in _COLUMNS
        ],
    }


def _whole_object() -> dict[str, Any]:
    """The schema of the whole object. Of the metadata only the name may be constrained; it becomes
    part of the names of pods."""
    name = structural_schema(Metadata)["properties"]["name"]
    return {
        "type": "object",
        "description": "An elastic training job: nodes that train together, fail and are replaced.",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object", "properties": {"name": name}},
            "spec": structural_schema(JobSpec),
            "status": structural_schema(JobStatus) | {"description": "What is known of the job."},
        },
        "required": ["spec"],
    }


class _Dumper(yaml.SafeDumper):
    """Writes everything out: aliases would only puzzle readers of the file."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


if __name__ == "__main__":
    print(custom_resource_text(), end="")
