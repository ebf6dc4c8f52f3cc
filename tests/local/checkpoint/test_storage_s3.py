"""A real S3 server on this machine, in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from resile import Checkpointer
from resile.checkpoint import object_storage
from resile.checkpoint.errors import StorageRefused, StorageTrouble
from resile.checkpoint.prune import prune
from resile.checkpoint.shelf import Shelf
from resile.checkpoint.storage import Storage, open_storage, read_whole
from resile.checkpoint.stored_part import StoredPart
from tests.local.commands import wait_for
from tests.unit.checkpoint.parts import HASTY, noise, parts_of, save

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("moto") is None or importlib.util.find_spec("s3fs") is None,
    reason="needs the packages moto[server] and s3fs",
)

SERVER = """
import os
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
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

    def make_bucket(self) -> None:
        s3fs = importlib.import_module("s3fs")
        s3fs.S3FileSystem(skip_instance_cache=True, **self.options()).mkdir("bucket")

    def options(self) -> dict[str, object]:
        retries = {"max_attempts": 0}
        return {
            "key": "test",
            "secret": "test",
            "client_kwargs": {"endpoint_url": self.endpoint, "region_name": "eu-west-1"},
            "config_kwargs": {"retries": retries, "connect_timeout": 2, "read_timeout": 30},
        }


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    server.make_bucket()
    yield server
    server.process.kill()
    server.process.wait()


def test_the_whole_protocol_runs_on_s3(server: Server) -> None:
    storage = server.storage("s3://bucket/run")
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
    ours, theirs = server.storage("s3://bucket/two"), server.storage("s3://bucket/two")
    save(ours, 10)
    assert Shelf(ours).steps() == [10]
    save(theirs, 20)
    assert Shelf(ours).newest_whole().step == 20


def test_a_large_part_is_uploaded_in_blocks(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "BLOCK", 5 << 20)  # the least that S3 takes
    storage = server.storage("s3://bucket/large")
    data = noise("large", 13 << 20)
    storage.write(
        "a", [memoryview(data)[at : at + (1 << 20)] for at in range(0, len(data), 1 << 20)]
    )
    assert read_whole(storage, "a") == data


def test_an_upload_that_breaks_off_leaves_the_object_that_was_there(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "BLOCK", 5 << 20)
    storage = server.storage("s3://bucket/torn")
    storage.write("a", [memoryview(b"before")])

    def chunks() -> Iterator[memoryview]:
        yield memoryview(noise("large", 12 << 20))
        raise ConnectionError("the network is gone")

    with pytest.raises(StorageTrouble, match="the network is gone"):
        storage.write("a", chunks())
    assert read_whole(storage, "a") == b"before"


def test_a_bucket_that_does_not_exist_is_refused_at_once(server: Server) -> None:
    with pytest.raises(StorageRefused, match="s3://none/run"):
        save(server.storage("s3://none/run"), 10)


def test_a_server_that_hangs_up_is_trouble_and_the_previous_checkpoint_stays() -> None:
    server = Server()
    try:
        server.make_bucket()
        storage = server.storage("s3://bucket/run")
        save(storage, 10)
    finally:
        os.kill(server.process.pid, signal.SIGKILL)
        wait_for(lambda: server.process.poll() is not None, "the server's end")
    with pytest.raises(StorageTrouble, match="s3://bucket/run/step-000000020"):
        save(storage, 20, patience=HASTY)


def test_a_checkpointer_writes_and_restores_with_the_options_it_was_given(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # nobody else to ask for a key
    address = "s3://bucket/options"

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
    assert Shelf(server.storage(address)).steps() == [7, 5]
    assert run(second, range(7, 8)) == 7
    assert torch.equal(first.weight, second.weight)


def test_the_command_lists_what_lies_on_s3(server: Server, tmp_path: Path) -> None:
    save(server.storage("s3://bucket/command"), 10)
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": server.endpoint,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "eu-west-1",
    }
    command = [sys.executable, "-m", "resile", "ckpt", "verify", "s3://bucket/command"]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout == "step 10: whole\n"
