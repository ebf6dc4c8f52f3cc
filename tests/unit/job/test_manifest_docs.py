"""The manifest reference matches the types: every field, its type, default and meaning."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from resile.job.manifest.parse import parse_manifest
from resile.job.spec.cluster import MasterSpec, MasterStorage
from resile.job.spec.groups import GroupSpec
from resile.job.spec.job import BackoffSpec, JobSpec, Metadata, RendezvousSpec, SuccessSpec
from resile.job.spec.names import NamesSpec
from resile.job.spec.role import (
    CodeRange,
    EnvVar,
    ExitRule,
    MemoryGrowth,
    Replicas,
    ResourceSpec,
    RestartBudget,
    RoleSpec,
)

PAGE = Path(__file__).parents[3] / "docs" / "manifest.md"
DOCUMENTED = [
    Metadata,
    JobSpec,
    RoleSpec,
    GroupSpec,
    NamesSpec,
    Replicas,
    EnvVar,
    ResourceSpec,
    RestartBudget,
    ExitRule,
    CodeRange,
    MemoryGrowth,
    RendezvousSpec,
    BackoffSpec,
    SuccessSpec,
    MasterSpec,
    MasterStorage,
]


def table(kind: type[msgspec.Struct]) -> str:
    """The reference table of one type."""
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    rows = ["| field | type | default | meaning |", "|---|---|---|---|"]
    for field in described.fields:
        cells = (f"`{field.encode_name}`", _type(field.type), _default(field), _meaning(field.type))
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def _meaning(kind: inspect.Type) -> str:
    while isinstance(kind, inspect.Metadata):
        text = (kind.extra_json_schema or {}).get("description")
        if text:
            return str(text)
        kind = kind.type
    return ""


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    default: Any = field.default
    if default is msgspec.NODEFAULT:
        default = field.default_factory()
    if isinstance(default, msgspec.Struct):
        return "see below"
    if isinstance(default, Enum):
        return f"`{default.value}`"
    if default is None:
        return "none"
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    if isinstance(default, float):
        return f"`{default:g}`"
    return "empty" if default in ((), {}, "") else f"`{default}`"


def _type(kind: inspect.Type) -> str:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        members = [m for m in kind.types if not isinstance(_bare(m), inspect.NoneType)]
        return " or ".join(dict.fromkeys(_type(member) for member in members))
    if isinstance(kind, inspect.EnumType):
        return " or ".join(f"`{member.value}`" for member in kind.cls)
    if isinstance(kind, inspect.LiteralType):
        return " or ".join(f"`{value}`" for value in kind.values)
    if isinstance(kind, inspect.StructType):
        return f"[{kind.cls.__name__}](#{kind.cls.__name__.lower()})"
    if isinstance(kind, inspect.VarTupleType):
        return f"list of {_type(kind.item_type)}"
    if isinstance(kind, inspect.DictType):
        return f"map of {_type(kind.value_type)}"
    names = {
        inspect.IntType: "integer",
        inspect.FloatType: "number",
        inspect.StrType: "text",
        inspect.BoolType: "boolean",
        inspect.AnyType: "anything",
    }
    return names[type(kind)]


def _bare(kind: inspect.Type) -> inspect.Type:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


@pytest.mark.parametrize("kind", DOCUMENTED, ids=lambda kind: kind.__name__)
def test_every_field_is_in_the_reference(kind: type[msgspec.Struct]) -> None:
    assert table(kind) in PAGE.read_text(), f"docs/manifest.md needs this table:\n\n{table(kind)}"


def test_the_examples_in_the_reference_are_sound_manifests() -> None:
    blocks = PAGE.read_text().split("```yaml\n")[1:]
    manifests = [block.split("```")[0] for block in blocks]
    whole = [text for text in manifests if text.startswith("apiVersion")]
    assert len(whole) >= 2
    for text in whole:
        parse_manifest(text)
