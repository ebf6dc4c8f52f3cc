"""The meaning of torchrun's rendezvous flags for the plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from torch.distributed.elastic.rendezvous import RendezvousParameters, rendezvous_handler_registry

from resile.job.elasticity import ElasticityError
from resile.launch.state_dir import run_folder
from resile.train.torchrun import create_handler
from resile.train.torchrun.settings import Settings, read_settings
from resile.wire.auth import AuthError, shared_token
from resile.wire.endpoint import Endpoint, EndpointError

TOKEN = "a-token-long-enough"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESILE_HOME", str(tmp_path))
    for name in ("RESILE_TOKEN", "RESILE_TOKEN_FILE", "RESILE_NODE_RANK", "RESILE_NODE_ID"):
        monkeypatch.delenv(name, raising=False)


def read(endpoint: str = "127.0.0.1:29400", **conf: Any) -> Settings:
    return read_settings(RendezvousParameters("resile", endpoint, "job", 1, 4, **conf))


def test_torch_finds_the_plugin_by_its_entry_point() -> None:
    parameters = RendezvousParameters("resile", "127.0.0.1:29400", "job", 1, 4)
    handler = rendezvous_handler_registry.create_handler(parameters)
    assert handler.get_backend() == "resile"
    assert handler.get_run_id() == "job"
    assert handler.use_agent_store
    assert handler.num_nodes_waiting() == 0
    assert not handler.is_closed()
    assert handler.shutdown()
    assert create_handler() is create_handler()


def test_sizes_restarts_and_patience_become_an_elasticity() -> None:
    made = read(last_call="1", lease="9").elasticity(max_restarts=5)
    assert (made.min_nodes, made.max_nodes, made.max_restarts) == (1, 4, 5)
    assert (made.last_call, made.lease) == (1, 9)


def test_the_timeout_torchrun_adds_by_itself_is_not_the_users() -> None:
    assert read(timeout=900).elasticity(0).join_timeout == 600
    assert read(timeout="900").elasticity(0).join_timeout == 900


def test_the_token_of_a_master_on_this_machine_is_found() -> None:
    token = shared_token(run_folder(Endpoint("127.0.0.1", 29400)) / "token")
    assert read("localhost").access.token == token


def test_the_token_of_a_master_elsewhere_has_to_be_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AuthError, match="token_file=FILE"):
        read("198.51.100.7:1")
    (tmp_path / "given").write_text(TOKEN)
    assert read("198.51.100.7:1", token_file=str(tmp_path / "given")).access.token == TOKEN
    monkeypatch.setenv("RESILE_TOKEN", TOKEN)
    assert read("198.51.100.7:1").access.token == TOKEN


def test_a_platform_may_say_which_node_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESILE_NODE_RANK", "3")
    monkeypatch.setenv("RESILE_NODE_ID", "17")
    assert (read().rank, read().generation) == (3, 17)
    monkeypatch.setenv("RESILE_NODE_ID", "x")
    with pytest.raises(ValueError, match=r"\$RESILE_NODE_ID is 'x'"):
        read()


@pytest.mark.parametrize(
    ("endpoint", "conf", "kind", "complaint"),
    [
        ("", {}, EndpointError, "--rdzv-endpoint is missing"),
        ("127.0.0.1:x", {}, EndpointError, "the port must be a number"),
        ("127.0.0.1", {"lease": "soon"}, ElasticityError, "lease=soon: expected a number"),
        (
            "127.0.0.1",
            {"connect_timeout": "x"},
            ElasticityError,
            "connect_timeout=x: expected",
        ),
        ("127.0.0.1", {"node_unit": "9"}, ElasticityError, "node_unit"),
        ("127.0.0.1", {"token_file": "/not/there"}, AuthError, "cannot be read"),
        ("127.0.0.1", {"tls_ca": "/not/there"}, AuthError, "--tls-ca|token"),
    ],
)
def test_a_mistake_is_named(
    endpoint: str, conf: dict[str, str], kind: type[Exception], complaint: str
) -> None:
    with pytest.raises(kind, match=complaint):
        read(endpoint, **conf)
