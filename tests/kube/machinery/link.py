"""A connection to the API server that can be cut: it stays open, and no data gets through."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from tests.kube.apiserver import ApiServer

CHUNK = 65536


class Link:
    """Forwards bytes between a client and an API server until it is cut."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._whole = asyncio.Event()
        self._whole.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def kubeconfig(self, *, namespace: str) -> str:
        """The server's kubeconfig, but through this link."""
        config = yaml.safe_load(Path(self._server.kubeconfig(namespace=namespace)).read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        path = self._server.folder / f"kubeconfig-link-{self.port}"
        path.write_text(yaml.safe_dump(config))
        return str(path)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Link]:
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = listener.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            listener.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", self._server.port)
        for source, target in ((reader, there[1]), (there[0], writer)):
            task = asyncio.ensure_future(self._forward(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while chunk := await source.read(CHUNK):
                await self._whole.wait()
                target.write(chunk)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()
