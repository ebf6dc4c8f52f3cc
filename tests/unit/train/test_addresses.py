"""The sources of the other nodes' addresses for a program: file, environment, master."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

import resile
from resile.job.addresses import Addresses, NodeAddress, NodeSlot, encode_addresses
from resile.train.addresses import NoAddresses, NotANode

VARIABLES = (
    "RESILE_ADDRESSES",
    "RESILE_ADDRESSES_FILE",
    "RESILE_MASTER",
    "RESILE_NODE_RANK",
    "RESILE_ROLE",
    "RESILE_TOKEN",
    "RESILE_TOKEN_FILE",
    "PET_RDZV_ENDPOINT",
)


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def of_size(servers: int) -> Addresses:
    ranks = (NodeAddress(rank=rank, host="127.0.0.1", ports={"rpc": 9}) for rank in range(servers))
    return Addresses(version=1, job="ctr", roles={"ps": tuple(ranks)})


def replace_file(file: Path, addresses: Addresses) -> None:
    draft = file.with_name("new")
    draft.write_bytes(encode_addresses(addresses))
    draft.replace(file)


def test_outside_of_a_job_that_is_said() -> None:
    with pytest.raises(NotANode, match="not a node of a job"):
        resile.addresses()


def test_the_file_counts_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "addresses.json"
    monkeypatch.setenv("RESILE_ADDRESSES_FILE", str(file))
    monkeypatch.setenv("RESILE_ADDRESSES", encode_addresses(of_size(1)).decode())
    assert resile.addresses() == of_size(1)
    replace_file(file, of_size(2))
    assert resile.addresses() == of_size(2)


def test_it_says_which_node_this_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "addresses.json"
    replace_file(file, of_size(2))
    monkeypatch.setenv("RESILE_ADDRESSES_FILE", str(file))
    monkeypatch.setenv("RESILE_ROLE", "ps")
    monkeypatch.setenv("RESILE_NODE_RANK", "1")
    found = resile.addresses()
    assert found.node == NodeSlot(role="ps", rank=1)
    assert found.own == found.of("ps")[1]


def test_waiting_ends_with_the_change_and_not_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "addresses.json"
    replace_file(file, of_size(1))
    monkeypatch.setenv("RESILE_ADDRESSES_FILE", str(file))
    assert resile.addresses(after=of_size(3), wait=60) == of_size(1)
    assert resile.addresses(after=of_size(1), wait=0.05) == of_size(1)
    later = threading.Timer(0.1, replace_file, (file, of_size(2)))
    later.start()
    assert resile.addresses(wait=60) == of_size(2)
    later.join()


def test_a_file_that_is_no_addresses_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "addresses.json"
    file.write_text("{}")
    monkeypatch.setenv("RESILE_ADDRESSES_FILE", str(file))
    with pytest.raises(NoAddresses, match="RESILE_ADDRESSES_FILE"):
        resile.addresses()


def test_a_master_that_does_not_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESILE_MASTER", "127.0.0.1:1")
    monkeypatch.setenv("RESILE_TOKEN", "a-token-that-is-long-enough")
    with pytest.raises(NoAddresses, match="no master answers"):
        resile.addresses()


def test_torch_is_not_imported() -> None:
    asks = "import resile, sys; resile.addresses; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", asks], check=True)
