"""The base of all manifest types, and the kinds of value their fields may hold.

Every bound is declared with the type, so that one declaration refuses a bad manifest, describes
the field in the JSON Schema of the custom resource, and documents itself.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from resile.job.limits import (
    MAX_ANNOTATION_BYTES,
    MAX_ARGUMENT_BYTES,
    MAX_ENTRIES,
    MAX_LEASE,
    MAX_NODES,
    MAX_PATH_BYTES,
    MAX_RESTARTS,
    MAX_SECONDS,
    MAX_WORKERS,
    MIN_LEASE,
)

__all__ = [
    "ENTRIES",
    "EXPECTED",
    "Annotation",
    "Argument",
    "Arguments",
    "Count",
    "Key",
    "DnsLabel",
    "LeaseSeconds",
    "ManifestStruct",
    "Namespace",
    "NodeCount",
    "NodeUnit",
    "PathText",
    "PortName",
    "PortNumber",
    "PositiveSeconds",
    "Seconds",
    "Text",
    "WorkerCount",
]


class ManifestStruct(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename="camel",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """A mapping in a manifest: camelCase names, nothing unknown, defaults left out when dumped."""


Count: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_RESTARTS)]
"""Restarts and the like."""

NodeCount: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_NODES)]
NodeUnit: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_NODES)]
WorkerCount: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_WORKERS)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0, le=MAX_SECONDS)]
PositiveSeconds: TypeAlias = Annotated[float, Meta(gt=0, le=MAX_SECONDS)]
LeaseSeconds: TypeAlias = Annotated[float, Meta(ge=MIN_LEASE, le=MAX_LEASE)]
PortNumber: TypeAlias = Annotated[int, Meta(ge=1, le=65535)]

Text: TypeAlias = Annotated[str, Meta(min_length=1, max_length=1024)]
PathText: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_PATH_BYTES)]
Argument: TypeAlias = Annotated[str, Meta(max_length=MAX_ARGUMENT_BYTES)]
Annotation: TypeAlias = Annotated[str, Meta(max_length=MAX_ANNOTATION_BYTES)]
Arguments: TypeAlias = Annotated[tuple[Argument, ...], Meta(max_length=MAX_ENTRIES)]

ENTRIES = Meta(max_length=MAX_ENTRIES)
"""The bound of any other list or mapping."""

Key: TypeAlias = Annotated[str, Meta(min_length=1, max_length=317)]
"""The name of a label, annotation or resource: a DNS subdomain, a slash and 63 characters."""

EXPECTED = "expected"
"""The key in ``Meta(extra=...)`` that describes a text with a pattern in words."""

DnsLabel: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        max_length=63,
        min_length=1,
        extra={
            EXPECTED: "lower-case letters, digits and '-', beginning with a letter, ending with a "
            "letter or digit, at most 63 characters"
        },
    ),
]
"""A DNS-1035 label: names of jobs and roles become names of pods and services."""

PortName: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        max_length=15,
        min_length=1,
        extra={
            EXPECTED: "lower-case letters, digits and '-', beginning with a letter, ending with a "
            "letter or digit, at most 15 characters"
        },
    ),
]
"""An IANA service name, as Kubernetes requires for names of ports."""

Namespace: TypeAlias = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=63,
        min_length=1,
        extra={
            EXPECTED: "lower-case letters, digits and '-', beginning and ending with a letter or "
            "digit, at most 63 characters"
        },
    ),
]
"""A DNS-1123 label: a namespace may begin with a digit."""
