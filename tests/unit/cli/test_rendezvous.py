"""The rendezvous endpoint of a job, from torchrun's flags."""

from __future__ import annotations

from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.cli.options.rdzv import Place, find_place, master_port_beside
from resile.wire.endpoint import LAST_PORT, Endpoint

NOTHING: dict[str, Any] = {
    "rdzv_backend": None,
    "rdzv_id": None,
    "rdzv_endpoint": "",
    "standalone": False,
    "master_addr": None,
    "master_port": None,
    "node_rank": None,
}


def place(*, max_nodes: int = 1, **flags: Any) -> Place:
    return find_place({**NOTHING, **flags}, max_nodes=max_nodes)


def test_a_static_address_belongs_to_the_script_and_the_master_listens_beside_it() -> None:
    found = place(master_addr="localhost", master_port=29500)
    assert found == Place(Endpoint("localhost", 19500), "none", Endpoint("localhost", 29500))


@pytest.mark.parametrize(
    ("flags", "store"),
    [
        ({"master_port": 1234}, Endpoint("127.0.0.1", 1234)),
        ({"master_addr": "node0"}, Endpoint("node0", 29500)),
        ({"master_addr": "[::1]", "master_port": 7}, Endpoint("::1", 7)),
        ({"rdzv_backend": "static", "rdzv_endpoint": "node0:555"}, Endpoint("node0", 555)),
        ({"rdzv_backend": "static", "max_nodes": 2}, Endpoint("127.0.0.1", 29500)),
        ({"node_rank": 1, "max_nodes": 2}, Endpoint("127.0.0.1", 29500)),
    ],
)
def test_a_static_rendezvous_is_recognised_as_torchrun_does(
    flags: dict[str, Any], store: Endpoint
) -> None:
    found = place(**flags)
    assert found.store == store
    assert found.endpoint == Endpoint(store.host, master_port_beside(store.port))


@pytest.mark.parametrize(
    "flags",
    [
        {"rdzv_endpoint": "node0:29400"},
        {"rdzv_endpoint": "node0:29400", "master_addr": "a", "master_port": 1},
        {"rdzv_endpoint": "node0:29400", "rdzv_backend": "c10d", "node_rank": 1},
    ],
)
def test_an_endpoint_is_the_masters_own(flags: dict[str, Any]) -> None:
    assert place(**flags) == Place(Endpoint("node0", 29400), "none")


def test_nodes_of_c10d_meet_at_torchruns_port_where_no_endpoint_is_given() -> None:
    found = place(rdzv_backend="c10d", max_nodes=2)
    assert found == Place(Endpoint("localhost", 29400), "none")


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"rdzv_backend": "static"},
        {"standalone": True, "master_port": 1234, "rdzv_endpoint": "node0:1"},
        {"rdzv_endpoint": "127.0.0.1:0"},
        {"master_port": 0},
    ],
)
def test_a_job_of_its_own_gets_a_free_port(flags: dict[str, Any]) -> None:
    one, other = place(**flags), place(**flags)
    assert one.store is None
    assert one.endpoint.host == "127.0.0.1"
    assert one.endpoint != other.endpoint


@given(st.integers(1, LAST_PORT))
def test_the_masters_port_is_another_one_that_any_user_may_have(port: int) -> None:
    beside = master_port_beside(port)
    assert 1024 <= beside <= LAST_PORT
    assert abs(beside - port) > 1


def test_another_backend_is_refused_with_what_would_do() -> None:
    with pytest.raises(click.UsageError, match="resile, c10d, static"):
        place(rdzv_backend="etcd-v2")
