"""The meaning of a manifest's fields once defaults are filled in."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from resile.control.start_requests import node_command
from resile.job.elasticity import Elasticity, RoleSize
from resile.job.errors import PriorityError
from resile.job.manifest.parse import job_from_data
from resile.job.naming import master_pod_name, node_name, serial_of
from resile.job.node import Node
from resile.job.spec.job import ElasticJob, JobSpec, RendezvousSpec
from resile.job.spec.priority import PriorityRule, parse_priority
from resile.job.spec.role import EnvVar, Replicas, ResourceSpec, RoleSpec, Size


def spec(roles: dict[str, Any], **more: Any) -> JobSpec:
    return job_from_data(
        {
            "apiVersion": "resile.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "train"},
            "spec": {"roles": roles, **more},
        }
    ).spec


RUN = {"script": "train.py"}


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (3, (3, 3, 3)),
        (0, (0, 0, 0)),
        (Replicas(), (1, 1, 1)),
        (Replicas(min=2), (2, 2, 2)),
        (Replicas(max=4), (1, 4, 4)),
        (Replicas(max=0), (0, 0, 0)),
        (Replicas(min=2, max=4), (2, 4, 4)),
        (Replicas(min=2, max=4, wanted=3), (2, 4, 3)),
        (Replicas(wanted=3), (1, 3, 3)),
        (Replicas(min=0, wanted=0, max=2), (0, 2, 0)),
    ],
)
def test_sizes_have_defaults(written: int | Replicas, size: tuple[int, int, int]) -> None:
    least, most, wanted = size
    assert RoleSpec(replicas=written).size == Size(min=least, max=most, wanted=wanted)


def test_both_notations_of_the_environment_mean_the_same() -> None:
    listed = RoleSpec(env=(EnvVar(name="A", value="1"), EnvVar(name="B")))
    assert listed.environment == RoleSpec(env={"A": "1", "B": ""}).environment


def test_requests_are_filled_in_from_limits_and_not_the_other_way() -> None:
    resolved = ResourceSpec(
        requests={"cpu": 0.5, "memory": "1Gi"}, limits={"memory": "2048Mi", "nvidia.com/gpu": 1}
    ).resolved()
    assert resolved.requests == {"cpu": "500m", "memory": "1Gi", "nvidia.com/gpu": "1"}
    assert resolved.limits == {"memory": "2Gi", "nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("roles", "success"),
    [
        (["worker", "ps", "evaluator"], ("worker",)),
        (["worker", "chief"], ("chief",)),
        (["ps", "trainer", "actor"], ("trainer", "actor")),
        (["ps"], ("ps",)),
    ],
)
def test_the_roles_that_success_depends_on_have_defaults(
    roles: list[str], success: tuple[str, ...]
) -> None:
    assert spec(dict.fromkeys(roles, RUN)).success_roles() == success


@pytest.mark.parametrize(
    ("roles", "scaled"),
    [
        ({"chief": RUN, "worker": RUN, "ps": RUN}, "worker"),
        ({"worker": {"command": ["train"]}, "trainer": RUN}, "worker"),
        ({"trainer": RUN, "ps": RUN, "evaluator": RUN}, "trainer"),
        ({"ps": {"command": ["ps"]}}, "ps"),
        ({"trainer": RUN, "actor": RUN}, None),
        ({"ps": {"command": ["ps"]}, "loader": {"command": ["load"]}}, None),
    ],
)
def test_the_role_that_the_jobs_replicas_size(roles: dict[str, Any], scaled: str | None) -> None:
    assert spec(roles).scaled_role() == scaled


@pytest.mark.parametrize(
    ("manager", "elsewhere"),
    [(None, False), ("resile.dev/operator", False), ("kueue.x-k8s.io/multikueue", True)],
)
def test_a_job_may_be_managed_elsewhere(manager: str | None, elsewhere: bool) -> None:
    assert spec({"worker": RUN}, managedBy=manager).managed_elsewhere is elsewhere


# --- commands -------------------------------------------------------------------------------


def test_a_command_is_taken_as_it_is() -> None:
    described = spec({"ps": {"command": ["python", "ps.py"], "args": ["--port", "1"]}})
    assert node_command(described, "ps") == ("python", "ps.py", "--port", "1")


def test_a_script_becomes_a_run_with_what_concerns_the_whole_job() -> None:
    described = spec(
        {
            "worker": {
                "replicas": {"min": 2, "max": 4},
                "nodeUnit": 2,
                "script": "train.py",
                "args": ["--lr", "0.1"],
                "procsPerNode": "auto",
            }
        },
        maxRestarts=7,
    )
    assert node_command(described, "worker") == (
        *("resile", "run", "--nnodes=2:4", "--nproc-per-node=auto", "--max-restarts=7"),
        *("--role=worker", "--node-unit=2", "train.py", "--lr", "0.1"),
    )


def test_a_module_is_run_with_m_and_the_launcher_can_be_chosen() -> None:
    described = spec({"worker": {"module": "pkg.train"}})
    argv = node_command(described, "worker", launcher=("python", "-m", "resile", "run"))
    assert argv[:4] == ("python", "-m", "resile", "run")
    assert argv[-2:] == ("-m", "pkg.train")


def test_chief_and_workers_train_together_and_an_evaluator_for_itself() -> None:
    described = spec(
        {
            "chief": RUN,
            "worker": {**RUN, "replicas": {"min": 1, "max": 3}},
            "evaluator": RUN,
            "ps": {"command": ["ps"]},
        }
    )
    assert described.training_roles() == ("chief", "worker")
    assert "--nnodes=2:4" in node_command(described, "chief")
    assert "--nnodes=2:4" in node_command(described, "worker")
    assert "--nnodes=1:1" in node_command(described, "evaluator")


def test_without_a_program_the_image_decides() -> None:
    assert node_command(spec({"worker": {"image": "train:1"}}), "worker") == ()


# --- elasticity -----------------------------------------------------------------------------


def test_the_masters_numbers_come_from_the_manifest() -> None:
    described = spec(
        {"worker": {**RUN, "replicas": {"min": 2, "max": 8}, "nodeUnit": 2}},
        maxRestarts=9,
        rendezvous={"lastCallSeconds": 1, "leaseSeconds": 2},
    )
    numbers = described.elasticity()
    assert (numbers.min_nodes, numbers.max_nodes, numbers.node_unit) == (2, 8, 2)
    assert (numbers.max_restarts, numbers.last_call, numbers.lease) == (9, 1, 2)


def test_roles_that_train_together_keep_their_sizes_and_leaders_come_first() -> None:
    described = spec(
        {
            "worker": {**RUN, "replicas": {"min": 2, "max": 8}, "nodeUnit": 2},
            "actor": {**RUN, "replicas": {"min": 0, "max": 3}},
            "chief": RUN,
            "evaluator": RUN,
        }
    )
    numbers = described.elasticity()
    assert (numbers.min_nodes, numbers.max_nodes, numbers.node_unit) == (3, 12, 1)
    assert numbers.roles == (
        RoleSize(name="chief", min_nodes=1, max_nodes=1),
        RoleSize(name="actor", min_nodes=0, max_nodes=3),
        RoleSize(name="worker", min_nodes=2, max_nodes=8, node_unit=2),
    )


def test_every_timeout_of_the_rendezvous_can_be_set_and_has_the_same_default() -> None:
    names = {field.name: field.type for field in msgspec.structs.fields(Elasticity)}
    timeouts = {name for name, kind in names.items() if kind is float}
    assert {name.removesuffix("_seconds") for name in RendezvousSpec.__struct_fields__} == timeouts
    for name in timeouts:
        assert getattr(RendezvousSpec(), f"{name}_seconds") == getattr(Elasticity(), name)
    changed = {f"{name}_seconds": 7.0 for name in timeouts}
    described = JobSpec(roles={"worker": RoleSpec()}, rendezvous=RendezvousSpec(**changed))
    assert all(getattr(described.elasticity(), name) == 7.0 for name in timeouts)


# --- priorities and names -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        (None, PriorityRule()),
        (0, PriorityRule(value=0)),
        (-5, PriorityRule(value=-5)),
        (0.5, PriorityRule(high_fraction=0.5)),
        ("0.5", PriorityRule(high_fraction=0.5)),
        ("high=0.5", PriorityRule(high_fraction=0.5)),
        ("high=1", PriorityRule(high_fraction=1.0)),
        ("high", PriorityRule(class_name="high")),
        ("team-a.batch", PriorityRule(class_name="team-a.batch")),
    ],
)
def test_a_priority_has_three_notations(
    written: int | float | str | None, rule: PriorityRule
) -> None:
    assert parse_priority(written) == rule


@pytest.mark.parametrize("written", [1.5, -0.5, "high=", "low=0.5", "Big", "", 2 * 10**9])
def test_a_priority_that_means_nothing_is_refused(written: int | float | str) -> None:
    with pytest.raises(PriorityError):
        parse_priority(written)


def test_a_nodes_name_ends_with_its_number() -> None:
    job = named()
    assert node_name(job, "worker", rank=2, serial=7) == "train-worker-7"
    assert serial_of(job, node_called("train-worker-7")) == 7
    assert serial_of(job, node_called("something-else")) is None


def test_other_systems_names_can_be_written() -> None:
    job = named(
        node="{job}-edljob-{role}-{serial}", master="elasticjob-{job}-dlrover-master{serial}"
    )
    assert node_name(job, "worker", rank=2, serial=7) == "train-edljob-worker-7"
    assert serial_of(job, node_called("train-edljob-worker-7")) == 7
    assert master_pod_name(job, serial=0) == "elasticjob-train-dlrover-master0"
    by_rank = named(node="{job}-{role}-{rank}")
    assert node_name(by_rank, "worker", rank=2, serial=7) == "train-worker-2"
    assert serial_of(by_rank, node_called("train-worker-2")) is None


def named(**patterns: str) -> ElasticJob:
    return job_from_data(
        {
            "apiVersion": "resile.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": "train"},
            "spec": {"roles": {"worker": {"script": "train.py"}}, "names": patterns},
        }
    )


def node_called(name: str) -> Node:
    return Node(role="worker", rank=2, id=0, name=name)


# --- schema ---------------------------------------------------------------------------------


def test_the_types_give_a_json_schema_with_bounds_and_descriptions() -> None:
    schema = msgspec.json.schema(ElasticJob)
    definitions = schema["$defs"]
    assert json.dumps(schema)
    assert definitions["RoleSpec"]["properties"]["nodeUnit"]["minimum"] == 1
    assert definitions["RoleSpec"]["additionalProperties"] is False
    for name in ("RoleSpec", "JobSpec", "RendezvousSpec", "Replicas", "BackoffSpec", "MasterSpec"):
        for field, described in definitions[name]["properties"].items():
            assert described.get("description"), f"{name}.{field} has no description"
