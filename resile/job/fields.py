"""The base of all manifest types, and the kinds of value their fields may hold.

Every bound is declared with the type, so the same declaration refuses a bad manifest, describes
the field in the JSON Schema of the custom resource, and documents itself.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

__all__ = [
    "Count",
    "Label",
    "ManifestStruct",
    "Namespace",
    "Positive",
    "PositiveSeconds",
    "Seconds",
    "Text",
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


Count: TypeAlias = Annotated[int, Meta(ge=0)]
Positive: TypeAlias = Annotated[int, Meta(ge=1)]
Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
PositiveSeconds: TypeAlias = Annotated[float, Meta(gt=0)]
Text: TypeAlias = Annotated[str, Meta(min_length=1)]

Label: TypeAlias = Annotated[
    str, Meta(pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$", max_length=63, min_length=1)
]
"""A DNS-1035 label: names of jobs and roles become names of pods and services."""

Namespace: TypeAlias = Annotated[
    str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63, min_length=1)
]
"""A DNS-1123 label: Kubernetes lets a namespace begin with a digit."""
