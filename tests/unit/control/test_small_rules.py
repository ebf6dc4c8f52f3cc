"""Priorities, resources, suspect machines and start order: the small rules, one by one."""

from __future__ import annotations

import pytest

from resile.control.actions import Priority
from resile.control.policy import Policy
from resile.control.sizing import count_nodes, unmet_dependencies
from resile.control.start_requests import grown_memory, memory_limit, node_resources, priority_of
from resile.control.suspect_hosts import still_suspect
from resile.job.exits import ExitCause
from resile.job.node import NodePhase
from resile.job.spec.quantity import parse_quantity
from resile.job.spec.role import MemoryGrowth, ResourceSpec, RoleSpec
from resile.job.status import HostTrouble, NodeStatus
from tests.unit.control.builders import at, job

HIGH, LOW = Priority(1000, "high"), Priority(-1000, "low")


@pytest.mark.parametrize(
    ("written", "wanted", "expected"),
    [
        (None, 2, [Priority(), Priority()]),
        (7, 2, [Priority(7), Priority(7)]),
        ("high", 2, [HIGH, HIGH]),
        ("low", 1, [LOW]),
        ("gold", 1, [Priority(0, "gold")]),
        (0.5, 4, [HIGH, HIGH, LOW, LOW]),
        ("high=0.5", 4, [HIGH, HIGH, LOW, LOW]),
        ("0.5", 3, [HIGH, HIGH, LOW]),
        (0.1, 4, [HIGH, LOW, LOW, LOW]),
        (0.0, 2, [LOW, LOW]),
        (1.0, 2, [HIGH, HIGH]),
    ],
)
def test_each_rank_has_its_priority(
    written: int | float | str | None, wanted: int, expected: list[Priority]
) -> None:
    role = RoleSpec(priority=written)
    assert [priority_of(role, rank, wanted=wanted) for rank in range(wanted)] == expected


def role_with(requests: dict[str, str], limits: dict[str, str], **growth: float | str) -> RoleSpec:
    return RoleSpec(
        resources=ResourceSpec(requests=requests, limits=limits),
        memory_growth=MemoryGrowth(**growth),  # type: ignore[arg-type]
    )


def test_a_rank_that_never_ran_out_gets_what_the_manifest_says() -> None:
    given = node_resources(role_with({"cpu": "1", "memory": "4Gi"}, {}), learnt=None)
    assert given.requests == {"cpu": "1", "memory": "4Gi"}
    assert given.limits == {}


def test_the_request_grows_with_the_limit_and_in_proportion() -> None:
    role = role_with({"cpu": "1", "memory": "2Gi"}, {"memory": "4Gi"})
    given = node_resources(role, learnt="8Gi")
    assert given.requests == {"cpu": "1", "memory": "4Gi"}
    assert given.limits == {"memory": "8Gi"}


def test_a_manifest_raised_above_what_was_learnt_wins() -> None:
    assert node_resources(role_with({}, {"memory": "16Gi"}), learnt="8Gi").limits == {
        "memory": "16Gi"
    }


def test_what_was_learnt_stays_when_the_manifest_drops_its_limit() -> None:
    assert node_resources(role_with({}, {}), learnt="8Gi").limits == {"memory": "8Gi"}


def test_a_limit_of_zero_is_no_limit() -> None:
    assert memory_limit(role_with({}, {"memory": "0"}), learnt=None) is None


def test_memory_never_grows_beyond_the_ceiling() -> None:
    role = role_with({}, {"memory": "3Gi"}, factor=1.5, ceiling="4Gi")
    assert grown_memory(role, learnt=None) == "4Gi"
    assert grown_memory(role, learnt="4Gi") is None


def test_a_grown_limit_is_a_whole_number_of_bytes() -> None:
    grown = grown_memory(role_with({}, {"memory": "1001"}, factor=1.3), learnt=None)
    assert grown is not None
    assert parse_quantity(grown).amount.denominator == 1


@pytest.mark.parametrize(("most", "kept"), [(0, []), (2, ["b", "c"]), (9, ["a", "b", "c"])])
def test_only_the_latest_machines_in_doubt_are_remembered(most: int, kept: list[str]) -> None:
    known = [HostTrouble(host=host, cause=ExitCause.NODE_LOST, at=at(0)) for host in "abc"]
    found = still_suspect(known, now=at(60), policy=Policy(max_avoided_hosts=most))
    assert [one.host for one in found] == kept


def test_a_role_waits_until_min_nodes_of_another_are_up() -> None:
    spec = job({"ps": {"replicas": {"min": 2, "max": 3}}, "worker": {"dependsOn": ["ps"]}}).spec

    def waits(role: str, *, running: int) -> str:
        ranks = [NodeStatus(role="ps", rank=n, phase=NodePhase.RUNNING) for n in range(running)]
        return unmet_dependencies(spec, role, counts=count_nodes(ranks))

    assert waits("worker", running=1) == "waits for ps (1 of 2 running)"
    assert waits("worker", running=2) == ""
    assert waits("ps", running=0) == ""
