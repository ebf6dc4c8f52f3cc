"""docs/job-json.md matches the structs: every field with its meaning, and an example."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from resile.job.node import Node
from resile.job.spec.role import NodeResources
from resile.job.status import (
    Condition,
    DecisionNote,
    HostTrouble,
    JobStatus,
    NodeRequest,
    NodeStatus,
    RoleStatus,
)
from resile.job.training import Failure, NodeView, RankView, TrainingView
from resile.job.view import VIEW_VERSION, JobView, document

PAGE = (Path(__file__).parents[3] / "docs" / "job-json.md").read_text()
VIEW = [JobView, TrainingView, NodeView, RankView, Failure]
STATUS = [JobStatus, Condition, RoleStatus, NodeStatus, DecisionNote, NodeRequest, HostTrouble]
DOCUMENTED: list[type[msgspec.Struct]] = [*VIEW, *STATUS, Node, NodeResources]


def structs_in(kind: inspect.Type) -> set[type[Any]]:
    """The structs that a type consists of, at any depth."""
    if isinstance(kind, inspect.StructType):
        below = (structs_in(field.type) for field in kind.fields)
        return {kind.cls}.union(*below)
    parts = [
        *getattr(kind, "types", ()),
        *(
            part
            for name in ("type", "value_type", "item_type")
            if (part := getattr(kind, name, None)) is not None
        ),
    ]
    return set[type[Any]]().union(*map(structs_in, parts))


def rows(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The description of each field of a struct in the page."""
    section = re.search(rf"^### {struct.__name__}\n(.*?)(?=^##|\Z)", PAGE, re.S | re.M)
    assert section is not None, f"{struct.__name__} has no section"
    found = re.findall(r"^\| `(\w+)` \| [^|]+ \| (.*) \|$", section[1], re.M)
    return dict(found)


def meaning(field: inspect.Field) -> str:
    extra = field.type.extra_json_schema if isinstance(field.type, inspect.Metadata) else None
    return str((extra or {}).get("description", ""))


@pytest.mark.parametrize("struct", DOCUMENTED, ids=lambda one: one.__name__)
def test_every_field_is_on_the_page_with_its_meaning(struct: type[msgspec.Struct]) -> None:
    kind = inspect.type_info(struct)
    assert isinstance(kind, inspect.StructType)
    assert rows(struct) == {field.encode_name: meaning(field) for field in kind.fields}
    assert all(rows(struct).values())


def test_every_struct_of_a_view_is_on_the_page() -> None:
    assert structs_in(inspect.type_info(JobView)) == set(DOCUMENTED)


def test_the_example_is_a_view_with_every_field() -> None:
    (example,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.S | re.M)
    view = msgspec.json.decode(example, type=JobView)
    printed = json.loads(msgspec.json.encode(document(view)))
    assert printed == json.loads(example), "a field is missing, or is none of ours"
    assert view.api_version == VIEW_VERSION
    assert f"`{VIEW_VERSION}`" in PAGE
    assert view.job is not None
    assert view.groups
    assert view.failures
