"""The custom resource definition matches the types, as a structural schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest
import yaml
from msgspec import Meta

from resile.job.spec.job import JobSpec
from resile.job.status import JobStatus
from resile.operator.crd import custom_resource, custom_resource_text, structural_schema

STORED = Path(__file__).parents[3] / "deploy" / "crds" / "elasticjobs.resile.dev.yaml"
VERSION = custom_resource()["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]

KEEP = "x-kubernetes-preserve-unknown-fields"
EITHER = "x-kubernetes-int-or-string"
NOT_STRUCTURAL = {"$ref", "$defs", "oneOf", "allOf", "not", "title", "nullable", "const"}


def test_the_stored_definition_is_up_to_date() -> None:
    assert STORED.read_text() == custom_resource_text(), (
        f"run: python -m resile.operator.crd > {STORED.relative_to(Path.cwd())}"
    )


def test_the_stored_definition_is_what_a_yaml_reader_makes_of_it() -> None:
    assert yaml.safe_load(custom_resource_text()) == custom_resource()


def places(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within a schema, with its path."""
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from places(below, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from places(schema[key], f"{path}.{key}")


ALL = dict(places(SCHEMA))


@pytest.mark.parametrize("path", ALL, ids=lambda path: path or "root")
def test_every_place_has_one_type_or_says_why_not(path: str) -> None:
    schema = ALL[path]
    assert not NOT_STRUCTURAL & set(schema)
    assert ("type" in schema) != bool(
        schema.get(EITHER) or (schema.get(KEEP) and "type" not in schema)
    )
    assert not {"properties", "additionalProperties"} <= set(schema)
    assert not isinstance(schema.get("exclusiveMinimum"), int | float) or isinstance(
        schema["exclusiveMinimum"], bool
    )


def test_every_field_of_spec_and_status_is_described() -> None:
    fields = [path for path in ALL if path.startswith((".spec.", ".status."))]
    named = [path for path in fields if not path.endswith((".items", ".additionalProperties"))]
    assert len(named) > 100
    assert [path for path in named if not ALL[path].get("description")] == []


def test_no_field_of_the_types_is_missing() -> None:
    for kind, name in ((JobSpec, "spec"), (JobStatus, "status")):
        fields = {field.encode_name for field in msgspec.structs.fields(kind)}
        assert set(SCHEMA["properties"][name]["properties"]) == fields


def test_the_scale_subresource_and_the_columns_point_at_fields_that_exist() -> None:
    paths = [*VERSION["subresources"]["scale"].values()]
    paths += [column["jsonPath"] for column in VERSION["additionalPrinterColumns"]]
    known = {*ALL, ".metadata.creationTimestamp"}
    assert [path for path in paths if path not in known] == []


# --- from types to schemas ------------------------------------------------------------------


class Part(msgspec.Struct, rename="camel"):
    """A part."""

    long_name: Annotated[str, Meta(max_length=5, description="Its name.")]


class Sample(msgspec.Struct):
    """A sample."""

    above: Annotated[float, Meta(gt=0)]
    size: Annotated[int, Meta(ge=0)] | Part
    mixed: Annotated[int, Meta(ge=2)] | float | str
    parts: dict[str, str] | tuple[Part, ...] = ()
    word: Annotated[str | None, Meta(description="A word.")] = "so"


PROPERTIES = structural_schema(Sample)["properties"]


def test_a_bound_that_is_not_reached_is_a_flag_beside_it() -> None:
    assert PROPERTIES["above"] == {"type": "number", "minimum": 0, "exclusiveMinimum": True}


def test_a_choice_without_a_type_keeps_what_each_member_asks_of_its_own_kind() -> None:
    part = {"type": "string", "maxLength": 5, "description": "Its name."}
    assert PROPERTIES["size"] == {
        KEEP: True,
        "minimum": 0,
        "properties": {"longName": part},
        "required": ["longName"],
    }


def test_below_a_choice_nothing_unknown_is_dropped() -> None:
    assert PROPERTIES["parts"]["items"][KEEP] is True
    assert PROPERTIES["parts"]["additionalProperties"] == {"type": "string"}


def test_the_bound_of_one_kind_of_number_is_not_put_on_another() -> None:
    assert PROPERTIES["mixed"] == {KEEP: True}


def test_a_default_is_told_and_not_set() -> None:
    assert PROPERTIES["word"] == {"type": "string", "description": "A word. Default: so."}


def test_what_has_no_default_is_required() -> None:
    assert structural_schema(Sample)["required"] == ["above", "size", "mixed"]
