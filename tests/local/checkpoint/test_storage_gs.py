"""A Google Storage server on this machine, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from resile import Checkpointer
from resile.checkpoint import object_storage
from resile.checkpoint.errors import StorageRefused
from resile.checkpoint.prune import prune
from resile.checkpoint.shelf import Shelf
from resile.checkpoint.storage import Storage, open_storage, read_whole
from resile.checkpoint.stored_part import StoredPart
from tests.unit.checkpoint.parts import noise, parts_of, save

SERVER = """
import os
import sys
from gcp_storage_emulator.server import create_server
server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
server.start()
print(server._api._httpd.server_address[1], flush=True)
sys.stdin.read()
os._exit(0)
"""


class Server:
    """A process that ends when its standard input does."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def storage(self, address: str) -> Storage:
        return open_storage(address, **self.options())

    def options(self) -> dict[str, object]:
        return {"token": "anon", "project": "test", "endpoint_url": self.endpoint}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.process.kill()
    server.process.wait()


def test_the_whole_protocol_runs_on_google_storage(server: Server) -> None:
    storage = server.storage("gs://bucket/run")
    for step in (10, 20, 30):
        save(storage, step)
    shelf = Shelf(storage)
    newest = shelf.newest_whole()
    assert newest.step == 30
    for entry, part in zip(newest.manifest.parts, parts_of(30), strict=True):
        with StoredPart(storage, newest, entry) as stored:
            assert stored.read(0, entry.size) == part
    assert prune(shelf, keep=1).steps == (20, 10)
    assert shelf.steps() == [30]


def test_what_another_process_put_there_is_seen_at_once(server: Server) -> None:
    ours, theirs = server.storage("gs://bucket/two"), server.storage("gs://bucket/two")
    save(ours, 10)
    assert Shelf(ours).steps() == [10]
    save(theirs, 20)
    assert Shelf(ours).newest_whole().step == 20


def test_a_large_part_is_uploaded_in_blocks(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "BLOCK", 5 << 20)
    storage = server.storage("gs://bucket/large")
    data = noise("large", 13 << 20)
    storage.write(
        "a", [memoryview(data)[at : at + (1 << 20)] for at in range(0, len(data), 1 << 20)]
    )
    assert read_whole(storage, "a") == data


def test_a_bucket_that_does_not_exist_is_refused_at_once(server: Server) -> None:
    with pytest.raises(StorageRefused, match="gs://none/run"):
        save(server.storage("gs://none/run"), 10)


def test_a_checkpointer_writes_and_restores(server: Server) -> None:
    def run(model: torch.nn.Module, steps: range) -> int:
        state = {"model": model, "step": 0}
        options = server.options()
        with Checkpointer("gs://bucket/job", every=5, storage_options=options, quiet=True) as one:
            start = one.restore(state)
            for step in steps:
                one.step(step, state)
            one.save(steps[-1], state, timeout=60)
        return start

    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    assert run(first, range(7)) == 0
    assert run(second, range(7, 8)) == 7
    assert torch.equal(first.weight, second.weight)


def test_the_command_verifies_what_lies_on_google_storage(server: Server, tmp_path: Path) -> None:
    save(server.storage("gs://bucket/command"), 10)
    environment = {**os.environ, "STORAGE_EMULATOR_HOST": server.endpoint}
    command = [sys.executable, "-m", "resile", "ckpt", "verify", "gs://bucket/command"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == "step 10: whole\n"
