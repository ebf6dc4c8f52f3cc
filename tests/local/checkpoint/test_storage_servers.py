"""Checkpoints on S3 and on Google Storage, with servers on this machine."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from resile import Checkpointer
from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.errors import StorageError, StorageRefused
from resile.checkpoint.storage import object as object_storage
from resile.checkpoint.storage.base import read_whole
from tests.checkpoints import newest_whole
from tests.local.checkpoint.storeservers import GoogleServer, S3Server, StoreServer
from tests.unit.checkpoint.parts import HASTY, noise, save
from tests.unit.checkpoint.protocol import keeps_the_protocol

SERVERS = [S3Server, GoogleServer]


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let gcsfs retry after a hundredth of its usual pauses, which are 31 s together."""
    import gcsfs.retry

    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / 100)

    monkeypatch.setattr(gcsfs.retry, "asyncio", SimpleNamespace(**vars(asyncio) | {"sleep": sleep}))


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest) -> Iterator[StoreServer]:
    with request.param.running() as server:
        yield server


def test_the_whole_protocol_runs(server: StoreServer) -> None:
    keeps_the_protocol(server.storage("bucket/run"))


def test_what_another_process_put_there_is_seen_at_once(server: StoreServer) -> None:
    ours, theirs = server.storage("bucket/two"), server.storage("bucket/two")
    save(ours, 10)
    assert CheckpointCatalog(ours).steps() == [10]
    save(theirs, 20)
    assert newest_whole(CheckpointCatalog(ours)).step == 20


def test_a_large_part_is_uploaded_in_blocks(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "BLOCK", 5 << 20)  # the smallest part that S3 accepts
    storage = server.storage("bucket/large")
    data = noise("large", 13 << 20)
    storage.write(
        "a", [memoryview(data)[at : at + (1 << 20)] for at in range(0, len(data), 1 << 20)]
    )
    assert read_whole(storage, "a") == data


@pytest.mark.usefixtures("quick_retries")
def test_an_upload_that_breaks_off_leaves_the_object_that_was_there(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "BLOCK", 5 << 20)
    storage = server.storage("bucket/torn")
    storage.write("a", [memoryview(b"before")])

    def chunks() -> Iterator[memoryview]:
        yield memoryview(noise("large", 12 << 20))
        raise ConnectionError("the network is gone")

    with pytest.raises(StorageError, match="the network is gone"):
        storage.write("a", chunks())
    assert read_whole(storage, "a") == b"before"


def test_a_bucket_that_does_not_exist_is_refused_at_once(server: StoreServer) -> None:
    with pytest.raises(StorageRefused, match=server.address("none/run")):
        save(server.storage("none/run"), 10)


@pytest.mark.usefixtures("quick_retries")
@pytest.mark.parametrize("kind", SERVERS)
def test_a_server_that_hangs_up_is_trouble(kind: type[StoreServer]) -> None:
    with kind.running() as server:
        storage = server.storage("bucket/run")
        save(storage, 10)
    with pytest.raises(StorageError, match=server.address("bucket/run/step-000000020")):
        save(storage, 20, policy=HASTY)


def test_a_checkpointer_writes_and_restores_with_the_options_it_was_given(
    server: StoreServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # no other source of credentials
    address = server.address("bucket/options")

    def run(model: torch.nn.Module, steps: range) -> int:
        state = {"model": model, "step": 0}
        options = server.options()
        with Checkpointer(address, every=5, storage_options=options, quiet=True) as checkpointer:
            start = checkpointer.restore(state)
            for step in steps:
                checkpointer.step(step, state)
            checkpointer.save(steps[-1], state, timeout=60)
        return start

    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    assert run(first, range(7)) == 0
    assert CheckpointCatalog(server.storage("bucket/options")).steps() == [7, 5]
    assert run(second, range(7, 8)) == 7
    assert torch.equal(first.weight, second.weight)


def test_the_command_verifies_what_lies_there(server: StoreServer, tmp_path: Path) -> None:
    save(server.storage("bucket/command"), 10)
    address = server.address("bucket/command")
    done = subprocess.run(
        [sys.executable, "-m", "resile", "ckpt", "verify", address],
        env={**os.environ, **server.environment()},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert done.stdout == "step 10: whole\n"
