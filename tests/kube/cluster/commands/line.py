"""A connection to any API server that can be cut: an HTTP proxy for CONNECT requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

CHUNK = 65536


class Line:
    """Forwards connections until it is cut."""

    def __init__(self) -> None:
        self._port = 0
        self._whole = True
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def cut(self) -> None:
        """Close all connections, and accept no others."""
        self._whole = False
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def mend(self) -> None:
        self._whole = True

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Line]:
        listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = listener.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self.cut()
            listener.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._whole:
            writer.transport.abort()
            return
        _, target, _ = (await reader.readline()).decode().split()
        while (await reader.readline()).strip():
            continue  # the headers of the request to connect
        host, _, port = target.rpartition(":")
        there = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        self._writers |= {writer, there[1]}
        for source, sink in ((reader, there[1]), (there[0], writer)):
            task = asyncio.ensure_future(self._forward(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while chunk := await source.read(CHUNK):
                sink.write(chunk)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()
