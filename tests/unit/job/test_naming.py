"""Names from a manifest's patterns, and parsing them."""

from __future__ import annotations

from typing import Any

import pytest

from resile.job.errors import ManifestError
from resile.job.manifest.parse import job_from_data
from resile.job.naming import node_name, pod_names, rank_service_name, role_in
from resile.job.spec.job import ElasticJob


def job(name: str = "ctr", **names: Any) -> ElasticJob:
    roles = {role: {"command": ["run"], "image": "some"} for role in ("ps", "ps-big", "worker")}
    return job_from_data(
        {
            "apiVersion": "resile.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": name},
            "spec": {"roles": roles, "names": names},
        }
    )


PATTERNS = ["{job}-{role}-{serial}", "{job}-edljob-{role}-{serial}"]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_role_is_read_off_a_name_again(pattern: str) -> None:
    named = job(node=pattern)
    for role in named.spec.roles:
        assert role_in(named, node_name(named, role, rank=3, serial=12)) == role
    assert role_in(named, "ctr-ps") == ""
    assert role_in(named, "another-ps-0") == ""


def test_the_pods_of_a_job_are_known_by_their_names() -> None:
    named = job(node="{job}-edljob-{role}-{serial}", master="elasticjob-{job}-master-{serial}")
    known = pod_names(named)
    assert known.fullmatch("ctr-edljob-ps-big-7")
    assert known.fullmatch("elasticjob-ctr-master-0")
    assert not known.fullmatch("ctr-ps-7")
    assert not known.fullmatch("ctr-edljob-ps-big-7-more")
    assert pod_names(job()).fullmatch("ctr-master-1")


def test_a_rank_has_a_service_only_where_one_is_named() -> None:
    assert rank_service_name(job(), "ps", 1) is None
    assert rank_service_name(job(rankService="{job}-{role}-{rank}"), "ps", 1) == "ctr-ps-1"


def test_a_service_of_a_rank_with_too_long_a_name_is_refused() -> None:
    with pytest.raises(ManifestError, match="the Service of a rank would be called"):
        job("c" * 40, rankService="{job}-{role}-{rank}-of-this-very-job")
