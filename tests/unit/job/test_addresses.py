"""The addresses of a job's nodes: which ranks are listed, under which names, and what nodes see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from resile.decoding import DecodeError
from resile.job.addresses import (
    LARGEST_IN_ENVIRONMENT,
    Addresses,
    NodeAddress,
    NodeSlot,
    address_variables,
    can_be_published,
    cluster_addresses,
    decode_addresses,
    encode_addresses,
    has_addresses,
    local_addresses,
    ranks_to_list,
)
from resile.job.manifest.parse import job_from_data
from resile.job.node import NodePhase
from resile.job.spec.job import ElasticJob
from resile.job.status import JobStatus, NodeStatus, RoleStatus

PS = {"kind": "Server", "command": ["serve"], "ports": {"rpc": 7000, "web-ui": 80}, "replicas": 2}
WORKER = {"command": ["work"], "replicas": {"min": 1, "max": 4, "wanted": 3}}


def job(*, name: str = "ctr", namespace: str = "ml", names: Any = None, **roles: Any) -> ElasticJob:
    spec: dict[str, Any] = {"roles": roles or {"ps": PS, "worker": WORKER}}
    if names is not None:
        spec["names"] = names
    return job_from_data(
        {
            "apiVersion": "resile.dev/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }
    )


def status(**phases: list[NodePhase]) -> JobStatus:
    return JobStatus(
        roles={role: RoleStatus(wanted=len(each)) for role, each in phases.items()},
        nodes=tuple(
            NodeStatus(role=role, rank=rank, phase=phase)
            for role, each in phases.items()
            for rank, phase in enumerate(each)
        ),
    )


def test_only_jobs_in_which_a_role_has_ports_have_addresses() -> None:
    assert has_addresses(job().spec)
    assert not has_addresses(job(worker=WORKER).spec)


def test_of_a_job_that_nobody_has_looked_at_the_wanted_ranks_are_listed() -> None:
    assert ranks_to_list(job(), JobStatus()) == {"ps": (0, 1), "worker": (0, 1, 2)}


def test_ranks_that_run_or_wait_for_a_node_are_listed_and_those_that_are_done_are_not() -> None:
    seen = status(
        worker=[
            NodePhase.SUCCEEDED,
            NodePhase.WAITING,
            NodePhase.STOPPED,
            NodePhase.RUNNING,
            NodePhase.FAILED,
        ],
        ps=[NodePhase.PENDING, NodePhase.RUNNING],
    )
    assert ranks_to_list(job(), seen) == {"ps": (0, 1), "worker": (1, 3)}


def test_on_a_cluster_a_rank_is_a_hostname_in_the_service_of_the_nodes() -> None:
    assert cluster_addresses(job(), JobStatus()).of("ps") == (
        NodeAddress(rank=0, host="ctr-ps-0.ctr-nodes.ml.svc", ports={"rpc": 7000, "web-ui": 80}),
        NodeAddress(rank=1, host="ctr-ps-1.ctr-nodes.ml.svc", ports={"rpc": 7000, "web-ui": 80}),
    )


def test_patterns_of_names_and_a_template_are_honoured_in_hosts() -> None:
    named = job(
        names={"hostname": "{role}{rank}", "nodesService": "{job}-all"},
        ps=PS,
        worker={**WORKER, "template": {"spec": {"subdomain": "mine"}}},
    )
    found = cluster_addresses(named, JobStatus())
    assert [one.host for one in found.of("ps")] == ["ps0.ctr-all.ml.svc", "ps1.ctr-all.ml.svc"]
    assert found.of("worker")[2].host == "worker2.mine.ml.svc"


def test_on_one_machine_a_rank_is_a_port() -> None:
    ports = {("ps", 1): {"rpc": 12345}}
    found = local_addresses(job(), {"ps": (1,), "worker": (0,)}, ports=ports)
    assert found.find("ps", 1) == NodeAddress(rank=1, host="127.0.0.1", ports={"rpc": 12345})
    assert found.find("worker", 0) == NodeAddress(rank=0, host="127.0.0.1", ports={})
    assert found.find("ps", 0) is None
    assert found.of("chief") == ()


def test_the_json_is_as_documented_and_is_read_again() -> None:
    found = local_addresses(job(), {"ps": (0,)}, ports={("ps", 0): {"rpc": 2222}})
    assert json.loads(encode_addresses(found)) == {
        "version": 1,
        "job": "ctr",
        "roles": {"ps": [{"rank": 0, "host": "127.0.0.1", "ports": {"rpc": 2222}}]},
    }
    assert decode_addresses(encode_addresses(found)) == found


def test_fields_may_be_added_but_another_version_is_not_read() -> None:
    more = '{"version": 1, "job": "ctr", "roles": {}, "zones": []}'
    assert decode_addresses(more) == Addresses(version=1, job="ctr", roles={})
    with pytest.raises(DecodeError):
        decode_addresses('{"version": 2, "job": "ctr", "roles": {}}')


def test_a_node_is_told_its_own_place_host_and_ports() -> None:
    found = cluster_addresses(job(), JobStatus())
    told = address_variables(found, NodeSlot(role="ps", rank=1), file="/there/addresses.json")
    text = told.pop("RESILE_ADDRESSES")
    assert told == {
        "RESILE_ADDRESSES_FILE": "/there/addresses.json",
        "RESILE_HOST": "ctr-ps-1.ctr-nodes.ml.svc",
        "RESILE_PORT_RPC": "7000",
        "RESILE_PORT_WEB_UI": "80",
    }
    own = decode_addresses(text)
    assert own.node == NodeSlot(role="ps", rank=1)
    assert own.own == found.find("ps", 1)
    assert own.roles == found.roles


def test_addresses_too_long_for_a_variable_are_in_the_file_alone() -> None:
    many = job(ps=PS, worker={"command": ["work"], "replicas": 2000})
    found = cluster_addresses(many, JobStatus())
    assert len(encode_addresses(found)) > LARGEST_IN_ENVIRONMENT
    assert can_be_published(found)
    told = address_variables(found, NodeSlot(role="ps", rank=0), file="/there")
    assert "RESILE_ADDRESSES" not in told
    assert told["RESILE_ADDRESSES_FILE"] == "/there"


def test_a_master_is_not_told_more_than_one_request_holds() -> None:
    many = job(name="c" * 40, ps=PS, worker={"command": ["work"], "replicas": 4900})
    assert not can_be_published(cluster_addresses(many, JobStatus()))
