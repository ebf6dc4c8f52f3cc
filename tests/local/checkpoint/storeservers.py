"""Object stores on this machine: real servers, each in a separate process."""

from __future__ import annotations

import importlib
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from resile.checkpoint.storage.base import Storage, open_storage

__all__ = ["GoogleServer", "S3Server", "StoreServer"]

BEGIN = "import os, sys"
END = "sys.stdin.read(); os._exit(0)"


class StoreServer(ABC):
    """A process that ends when its standard input is closed; it has a bucket named ``bucket``."""

    scheme = ""
    script = ""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", "\n".join((BEGIN, self.script, END))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[StoreServer]:
        server = cls()
        try:
            server.prepare()
            yield server
        finally:
            server.end()

    @abstractmethod
    def prepare(self) -> None:
        """Create the bucket."""

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    def address(self, path: str) -> str:
        return f"{self.scheme}://{path}"

    def storage(self, path: str) -> Storage:
        return open_storage(self.address(path), **self.options())

    @abstractmethod
    def options(self) -> dict[str, Any]:
        """Options for the driver."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """The same, as variables that the driver reads."""


class S3Server(StoreServer):
    """Moto's S3 server."""

    scheme = "s3"
    script = """
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
"""

    def prepare(self) -> None:
        s3fs = importlib.import_module("s3fs")
        s3fs.S3FileSystem(skip_instance_cache=True, **self.options()).mkdir("bucket")

    def options(self) -> dict[str, Any]:
        retries = {"max_attempts": 0}
        return {
            "key": "test",
            "secret": "test",
            "client_kwargs": {"endpoint_url": self.endpoint, "region_name": "eu-west-1"},
            "config_kwargs": {"retries": retries, "connect_timeout": 2, "read_timeout": 30},
        }

    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "eu-west-1",
        }


class GoogleServer(StoreServer):
    """The server of gcp-storage-emulator."""

    scheme = "gs"
    script = """
from gcp_storage_emulator.server import create_server
server = create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
server.start()
print(server._api._httpd.server_address[1], flush=True)
"""

    def prepare(self) -> None:
        """Nothing to do: it was started with the bucket."""

    def options(self) -> dict[str, Any]:
        return {"token": "anon", "project": "test", "endpoint_url": self.endpoint}

    def environment(self) -> dict[str, str]:
        return {"STORAGE_EMULATOR_HOST": self.endpoint}
