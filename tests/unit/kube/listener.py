"""An HTTP server that records its requests, and kubeconfigs for it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from resile.kube.client import KubeClient
from resile.kube.resources import PODS

EMPTY = json.dumps({"items": [], "metadata": {"resourceVersion": "1"}}).encode()


@dataclass
class Listener:
    """An HTTP server, or a proxy to any, that responds to every list with an empty one."""

    url: str = ""
    refused: set[str] = field(default_factory=set)
    """Tokens that it rejects."""
    status: str = "200 OK"
    heads: list[list[str]] = field(default_factory=list)
    """The lines of each request."""

    def values(self, header: str) -> list[str]:
        split = [line.partition(": ") for line in self.heads[-1]]
        return [text for name, _, text in split if name.lower() == header.lower()]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode().split("\r\n"))
        known = not self.refused.intersection(self.values("Authorization"))
        status = self.status if known else "401 Unauthorized"
        length = f"Content-Length: {len(EMPTY)}\r\nConnection: close\r\n\r\n"
        writer.write(f"HTTP/1.1 {status}\r\n{length}".encode() + EMPTY)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None = None) -> AsyncIterator[Listener]:
    listener = Listener()
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0, ssl=tls)
    scheme = "http" if tls is None else "https"
    listener.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield listener


def written(
    folder: Path, url: str, *, user: dict[str, Any], cluster: dict[str, Any] | None = None
) -> str:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "one",
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def ask(kubeconfig: str) -> None:
    async with KubeClient.connect(kubeconfig=kubeconfig) as client:
        await client.list(PODS)
