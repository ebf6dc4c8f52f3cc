"""Kinds of roles, the groups they form, and errors in them."""

from __future__ import annotations

from typing import Any

import pytest

from resile.control.start_requests import node_command
from resile.job.errors import ManifestError
from resile.job.manifest.parse import job_from_data
from resile.job.spec.groups import DEFAULT_GROUP
from resile.job.spec.job import JobSpec
from resile.job.spec.role import DependencyCondition, FailurePolicy, RoleKind

RUN = {"script": "train.py"}
PLAIN = {"command": ["serve"]}


def spec(roles: dict[str, Any], **more: Any) -> JobSpec:
    return job_from_data(
        {
            "apiVersion": "resile.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "train"},
            "spec": {"roles": roles, **more},
        }
    ).spec


def problem(roles: dict[str, Any], **more: Any) -> str:
    with pytest.raises(ManifestError) as caught:
        spec(roles, **more)
    return str(caught.value)


# --- kinds ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "fields", "kind"),
    [
        ("worker", RUN, RoleKind.LOCKSTEP),
        ("chief", RUN, RoleKind.LOCKSTEP),
        ("worker", PLAIN, RoleKind.INDEPENDENT),
        ("ps", PLAIN, RoleKind.SERVER),
        ("ps", RUN, RoleKind.SERVER),
        ("evaluator", RUN, RoleKind.PROGRAM),
        ("ps", {**RUN, "kind": "Lockstep"}, RoleKind.LOCKSTEP),
        ("worker", {**RUN, "kind": "Independent"}, RoleKind.INDEPENDENT),
    ],
)
def test_what_a_role_is_by_default_and_as_its_manifest_says(
    role: str, fields: dict[str, Any], kind: RoleKind
) -> None:
    assert spec({role: fields}).kind_of(role) is kind


def test_a_node_outside_of_all_groups_has_a_world_of_its_own() -> None:
    described = spec({"worker": RUN, "ps": {**RUN, "replicas": 3}}, maxRestarts=5)
    assert described.group_of("ps") is None
    assert node_command(described, "ps")[2:5] == (
        *("--nnodes=1:1", "--nproc-per-node=1", "--max-restarts=5"),
    )


@pytest.mark.parametrize(
    ("fields", "policy"),
    [
        ({}, FailurePolicy.BELOW_MIN),
        ({"required": False}, FailurePolicy.IGNORE),
        ({"kind": "Program"}, FailurePolicy.IGNORE),
        ({"kind": "Program", "required": True}, FailurePolicy.BELOW_MIN),
        ({"kind": "Program", "failurePolicy": "AnyNode"}, FailurePolicy.ANY_NODE),
    ],
)
def test_when_a_role_fails_its_job(fields: dict[str, Any], policy: FailurePolicy) -> None:
    assert spec({"helper": {**PLAIN, **fields}}).failure_policy("helper") is policy


def test_a_failure_policy_beside_required_is_refused() -> None:
    found = problem({"worker": {**RUN, "required": True, "failurePolicy": "Ignore"}})
    assert "give only one of failurePolicy and required" in found


# --- waiting --------------------------------------------------------------------------------


def test_a_list_of_dependencies_means_ready_for_a_server_with_ports_else_running() -> None:
    described = spec(
        {
            "ps": {**PLAIN, "ports": {"grpc": 2222}},
            "store": {**PLAIN, "kind": "Server"},
            "data": PLAIN,
            "worker": {**RUN, "dependsOn": ["ps", "store", "data"]},
        }
    )
    assert described.dependencies("worker") == {
        "ps": DependencyCondition.READY,
        "store": DependencyCondition.RUNNING,
        "data": DependencyCondition.RUNNING,
    }


def test_a_mapping_of_dependencies_says_what_is_waited_for() -> None:
    described = spec({"data": PLAIN, "worker": {**RUN, "dependsOn": {"data": "Succeeded"}}})
    assert described.dependencies("worker") == {"data": DependencyCondition.SUCCEEDED}


def test_an_unknown_dependency_is_named_in_either_notation() -> None:
    for written in (["dta"], {"dta": "Succeeded"}):
        assert 'there is no role "dta"' in problem({"worker": {**RUN, "dependsOn": written}})


# --- groups ---------------------------------------------------------------------------------


def test_without_groups_all_lockstep_roles_are_one_with_the_leader_first() -> None:
    described = spec({"worker": RUN, "actor": RUN, "master": RUN, "ps": PLAIN})
    assert described.worlds() == {DEFAULT_GROUP: ("master", "actor", "worker")}
    assert described.training_roles() == ("master", "actor", "worker")


def test_the_order_of_a_groups_roles_is_the_order_of_ranks() -> None:
    described = spec(
        {"chief": RUN, "worker": {**RUN, "replicas": {"min": 1, "max": 3}}, "tester": RUN},
        groups={
            "evaluate": {"roles": ["tester"], "maxRestarts": 9},
            "train": {"roles": ["worker", "chief"]},
        },
    )
    assert list(described.worlds()) == ["train", "evaluate"]
    assert [role.name for role in described.elasticity().roles] == ["worker", "chief"]
    assert described.elasticity("train").max_nodes == 4
    assert described.elasticity("evaluate").max_nodes == 1
    assert described.elasticity("evaluate").max_restarts == 9
    assert described.elasticity("train").max_restarts == 3


def test_the_main_group_is_train_or_the_first_by_name() -> None:
    roles = {"worker": RUN, "tester": RUN}
    groups = {"two": {"roles": ["worker"]}, "one": {"roles": ["tester"]}}
    assert spec(roles, groups=groups).main_group == "one"


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"train": {"roles": ["worker", "wroker"]}}, 'there is no role "wroker"'),
        ({"train": {"roles": ["worker", "ps"]}}, "role ps is Server; only Lockstep roles share"),
        (
            {"train": {"roles": ["worker", "chief"]}, "more": {"roles": ["chief"]}},
            "role chief is already in group train",
        ),
        ({"train": {"roles": ["worker"]}}, "is Lockstep but in no group"),
        ({"train": {"roles": []}}, "spec.groups.train.roles: expected at least 1 item"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups: dict[str, Any], message: str) -> None:
    assert message in problem({"worker": RUN, "chief": RUN, "ps": PLAIN}, groups=groups)


def test_two_names_for_one_port_are_refused() -> None:
    found = problem({"ps": {**PLAIN, "ports": {"grpc": 2222, "http": 2222}}})
    assert "port 2222 is already named grpc" in found


# --- names ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"node": "{job}-{rol}-{serial}"}, "{rol} is not a placeholder here; use {job}"),
        ({"node": "{job}-{role}"}, "{serial} or {rank} is missing"),
        ({"node": "{job}-{serial}"}, "{role} is missing"),
        ({"masterService": "master"}, "{job} is missing"),
        ({"node": "{job}_{role}_{serial}"}, "gives train_worker_99999"),
    ],
)
def test_patterns_that_cannot_name_anything_are_refused(
    names: dict[str, str], message: str
) -> None:
    found = problem({"worker": RUN}, names=names)
    assert "spec.names." in found
    assert message in found
