"""The CustomResourceDefinition of ElasticJob, generated from the types in ``job``.

``python -m resile.operator.crd`` prints it; deploy/crds holds that output, and a test fails when
it is out of date. What the schema cannot express (how fields relate, the names of roles) our own
validation checks later, and reports in a condition of the job.

A structural schema has exactly one type at every place, and some of our fields do not fit:
``replicas`` is a number or a mapping, ``env`` a mapping or a list. Integer or string has a form
of its own (``x-kubernetes-int-or-string``); any other union is left without a type, and still
checked: a bound applies to numbers only, a pattern to strings, ``properties`` to mappings. What
an API server cannot check there, such as an unknown field or a value of another type, it must
keep rather than drop silently, so that our own validation finds it. No field is nullable: an API
server drops an empty field by itself, as our own reader does, and kubectl would not check
anything below a nullable one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, TypeAlias

import yaml
from msgspec import inspect

from resile.job.spec.job import API_VERSION, KIND, JobSpec, Metadata
from resile.job.status import JobStatus

__all__ = [
    "GROUP",
    "PLURAL",
    "VERSION",
    "custom_resource",
    "custom_resource_text",
    "structural_schema",
]


Schema: TypeAlias = dict[str, Any]

KEEP_UNKNOWN = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"

_NOT_A_FACET = frozenset({"type", "description", "enum"})
_BOUNDS = frozenset({"minimum", "maximum", "exclusiveMinimum"})

_SCALARS: dict[type[inspect.Type], Schema] = {
    inspect.BoolType: {"type": "boolean"},
    inspect.DateTimeType: {"type": "string", "format": "date-time"},
    inspect.AnyType: {KEEP_UNKNOWN: True},
}


def structural_schema(kind: Any) -> Schema:
    """Return the schema of a type, without references: everything is written out in place."""
    return _of(inspect.type_info(kind))


def _of(kind: inspect.Type) -> Schema:
    if isinstance(kind, inspect.Metadata):
        return {**_of(kind.type), **(kind.extra_json_schema or {})}
    if isinstance(kind, inspect.UnionType):
        return _union(kind.types)
    if isinstance(kind, inspect.StructType):
        return _struct(kind)
    if isinstance(kind, inspect.DictType):
        return _mapping(kind)
    if isinstance(kind, inspect.VarTupleType):
        return {
            "type": "array",
            "items": _of(kind.item_type),
            **_given(minItems=kind.min_length, maxItems=kind.max_length),
        }
    if isinstance(kind, inspect.EnumType):
        return {"type": "string", "enum": [member.value for member in kind.cls]}
    if isinstance(kind, inspect.LiteralType):
        return {"type": "string", "enum": list(kind.values)}
    if isinstance(kind, inspect.IntType | inspect.FloatType):
        return _number(kind)
    if isinstance(kind, inspect.StrType):
        return _text(kind)
    return dict(_SCALARS[type(kind)])


def _struct(kind: inspect.StructType) -> Schema:
    schema: Schema = {"type": "object", "description": (kind.cls.__doc__ or "").partition("\n")[0]}
    schema["properties"] = {field.encode_name: _field(field) for field in kind.fields}
    required = [field.encode_name for field in kind.fields if field.required]
    return schema | ({"required": required} if required else {})


def _field(field: inspect.Field) -> Schema:
    """The schema of a field. Defaults are described, not set: a stored manifest stays as is."""
    schema, default = _of(field.type), field.default
    if isinstance(default, Enum):
        default = default.value
    if default and isinstance(default, bool | int | float | str):
        shown = f"{default:g}" if isinstance(default, float) else str(default)
        schema["description"] = f"{schema.get('description', '')} Default: {shown}.".strip()
    return schema


def _mapping(kind: inspect.DictType) -> Schema:
    if isinstance(kind.value_type, inspect.AnyType):
        schema: Schema = {"type": "object", KEEP_UNKNOWN: True}
    else:
        schema = {"type": "object", "additionalProperties": _of(kind.value_type)}
    return schema | _given(minProperties=kind.min_length, maxProperties=kind.max_length)


def _number(kind: inspect.IntType | inspect.FloatType) -> Schema:
    name = "integer" if isinstance(kind, inspect.IntType) else "number"
    if kind.gt is not None:  # OpenAPI 3.0 has a flag beside the bound, where JSON Schema has two
        bounds = _given(minimum=kind.gt, maximum=kind.le)
        return {"type": name, **bounds, "exclusiveMinimum": True}
    return {"type": name, **_given(minimum=kind.ge, maximum=kind.le)}


def _text(kind: inspect.StrType) -> Schema:
    bounds = _given(minLength=kind.min_length, maxLength=kind.max_length, pattern=kind.pattern)
    return {"type": "string", **bounds}


def _given(**bounds: Any) -> Schema:
    return {name: bound for name, bound in bounds.items() if bound is not None}


# --- one of several types -------------------------------------------------------------------


def _union(kinds: Iterable[inspect.Type]) -> Schema:
    members = [_of(kind) for kind in kinds if not isinstance(kind, inspect.NoneType)]
    if len(members) == 1:
        return members[0]
    types = {member["type"] for member in members}
    schema: Schema = {INT_OR_STRING: True} if types == {"integer", "string"} else {}
    schema = schema or {KEEP_UNKNOWN: True}
    for member in members:
        schema |= _facets(member)
    if {"integer", "number"} <= types:  # the bounds of one would hold for the other as well
        schema = {name: value for name, value in schema.items() if name not in _BOUNDS}
    return schema


def _facets(member: Schema) -> Schema:
    """The constraints of a union's member, which apply to values of its own type only."""
    facets = {name: value for name, value in member.items() if name not in _NOT_A_FACET}
    if "enum" in member:
        facets["pattern"] = f"^({'|'.join(re.escape(word) for word in member['enum'])})$"
    for name in ("items", "additionalProperties"):
        if name in facets:
            facets[name] = _kept(facets[name])
    return facets


def _kept(schema: Schema) -> Schema:
    """Keep unknown fields of a mapping below a union: no client warns about them there."""
    return schema | {KEEP_UNKNOWN: True} if schema.get("type") == "object" else schema


GROUP, _, VERSION = API_VERSION.partition("/")
SINGULAR = KIND.lower()
PLURAL = f"{SINGULAR}s"

_HEADER = "# Generated by `python -m resile.operator.crd` from resile/job.\n"

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
