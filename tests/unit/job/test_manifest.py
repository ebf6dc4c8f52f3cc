"""Reading and writing manifests."""

from __future__ import annotations

from typing import Any, Literal

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from resile.job.errors import ManifestError, Problem
from resile.job.manifest.checks import check_job
from resile.job.manifest.parse import job_from_data, parse_manifest
from resile.job.spec.job import ElasticJob
from resile.job.spec.role import Replicas
from tests.manifests import dump_manifest
from tests.unit.job.strategies import elastic_jobs, json_values

MINIMAL = """\
apiVersion: resile.dev/v1alpha1
kind: ElasticJob
metadata:
  name: digits
spec:
  roles:
    worker:
      replicas: {min: 2, max: 4}
      script: train.py
"""


def test_a_minimal_manifest_is_enough() -> None:
    job = parse_manifest(MINIMAL)
    assert job.metadata.name == "digits"
    assert job.spec.roles["worker"].replicas == Replicas(min=2, max=4)


def test_json_is_read_as_well_tabs_included() -> None:
    text = dump_manifest(parse_manifest(MINIMAL), "json").replace("  ", "\t")
    assert parse_manifest(text) == parse_manifest(MINIMAL)


def test_what_an_api_server_adds_is_not_held_against_the_user() -> None:
    data = msgspec.to_builtins(parse_manifest(MINIMAL))
    data["metadata"] |= {"uid": "1", "resourceVersion": "7", "creationTimestamp": None}
    data["status"] = {"phase": "Running"}
    assert job_from_data(data) == parse_manifest(MINIMAL)


def test_a_name_that_an_api_server_made_up_is_a_name_like_any_other() -> None:
    data = msgspec.to_builtins(parse_manifest(MINIMAL))
    data["metadata"] = {"generateName": "digits-", "name": "digits-x7k2p", "namespace": "2nd-team"}
    metadata = job_from_data(data).metadata
    assert (metadata.name, metadata.namespace) == ("digits-x7k2p", "2nd-team")


def test_anchors_and_merge_keys_work() -> None:
    text = MINIMAL.replace(
        "    worker:", "    ps: &base\n      command: [ps]\n    worker:"
    ).replace("      script: train.py", "      <<: *base\n      args: [--fast]")
    worker = parse_manifest(text).spec.roles["worker"]
    assert (worker.command, worker.args) == (("ps",), ("--fast",))


def test_an_empty_field_is_an_absent_one() -> None:
    assert parse_manifest(MINIMAL + "      args:\n      env:\n") == parse_manifest(MINIMAL)


@settings(max_examples=60, deadline=None)
@given(job=elastic_jobs(), form=st.sampled_from(["yaml", "json"]))
def test_a_dumped_manifest_reads_back_as_the_same_job(
    job: ElasticJob, form: Literal["yaml", "json"]
) -> None:
    assert check_job(job) == []
    assert parse_manifest(dump_manifest(job, form)) == job


@settings(max_examples=150, deadline=None)
@given(text=st.text(max_size=80))
def test_any_text_is_either_a_job_or_a_manifest_error(text: str) -> None:
    with pytest.raises(ManifestError):
        parse_manifest(text)


@settings(max_examples=100, deadline=None)
@given(job=elastic_jobs(), pick=st.integers(0, 10**6), value=json_values)
def test_any_value_in_any_place_is_either_accepted_or_refused_in_words(
    job: ElasticJob, pick: int, value: Any
) -> None:
    data = msgspec.json.decode(msgspec.json.encode(job))
    places = [place for place in _places(data) if place]
    place = places[pick % len(places)]
    target = data
    for step in place[:-1]:
        target = target[step]
    target[place[-1]] = value
    problems = _problems(data)
    assert problems is None or all(problem.message for problem in problems)


def _problems(data: Any) -> tuple[Problem, ...] | None:
    try:
        job_from_data(data)
    except ManifestError as error:
        return error.problems
    return None


def _places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(data, dict):
        for key, value in data.items():
            found += _places(value, (*path, key))
    elif isinstance(data, list):
        for n, value in enumerate(data):
            found += _places(value, (*path, n))
    return found
