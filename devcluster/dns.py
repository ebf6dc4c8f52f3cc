"""The process that keeps the DNS up to date: python -m devcluster.dns KUBECONFIG HOSTS PIDFILE

Two watches, of Services and of Endpoints, each maintain one collection; after a change the hosts
file is rewritten and dnsmasq, found by its pid file, gets a SIGHUP to reload it. While the API
server is down the last answers stay; a watch that ends for any reason restarts with a list.
"""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from devcluster import identity
from devcluster.api import Account, load_account
from devcluster.files import write
from devcluster.hosts import hosts

# Many endpoints change at once when a job starts; they are published with one reload.
_GATHER = 0.05
_TRY_AGAIN = 0.5
# The server ends a watch after this long; a connection silent for longer is dead.
_WATCH_SECONDS = 120
_SILENCE = 150.0


class Collection:
    """A local copy of all objects of one kind."""

    def __init__(self, path: str, changed: asyncio.Event) -> None:
        self._path = path
        self._changed = changed
        self._items: dict[str, dict[str, Any]] | None = None

    @property
    def items(self) -> list[dict[str, Any]] | None:
        """The objects; None before the first list."""
        return None if self._items is None else list(self._items.values())

    async def follow(self, session: aiohttp.ClientSession) -> None:
        """List and watch, forever."""
        while True:
            try:
                await self._watch(session, await self._list(session))
            except (aiohttp.ClientError, asyncio.TimeoutError, json.JSONDecodeError) as error:
                print(f"{self._path}: {error!r}", flush=True)
            await asyncio.sleep(_TRY_AGAIN)

    async def _list(self, session: aiohttp.ClientSession) -> str:
        async with session.get(self._path) as response:
            document = await response.json()
        self._items = {item["metadata"]["uid"]: item for item in document["items"]}
        self._changed.set()
        return str(document["metadata"]["resourceVersion"])

    async def _watch(self, session: aiohttp.ClientSession, version: str) -> None:
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(_WATCH_SECONDS)}
        async with session.get(self._path, params=query) as response:
            async for line in _lines(response.content):
                event = json.loads(line)
                if event["type"] == "ERROR":  # Usually: the resource version is too old.
                    return
                self._apply(event["type"], event["object"])

    def _apply(self, change: str, item: dict[str, Any]) -> None:
        assert self._items is not None
        if change == "DELETED":
            self._items.pop(item["metadata"]["uid"], None)
        else:
            self._items[item["metadata"]["uid"]] = item
        self._changed.set()


class HostsFile:
    """The file that dnsmasq answers from."""

    def __init__(self, path: Path, *, reader: Path) -> None:
        """``reader``: the pid file of dnsmasq."""
        self._path = path
        self._reader = reader

    def publish(self, text: str) -> None:
        """Write the file if it changed, and make dnsmasq reload it."""
        if text == self._path.read_text():
            return
        write(self._path, text)
        if dnsmasq := identity.read(self._reader):
            dnsmasq.send(signal.SIGHUP)


async def keep_names(account: Account, file: HostsFile) -> None:
    """Follow both collections and publish their names, forever."""
    changed = asyncio.Event()
    services = Collection("/api/v1/services", changed)
    endpoints = Collection("/api/v1/endpoints", changed)
    async with aiohttp.ClientSession(
        account.url,
        connector=aiohttp.TCPConnector(ssl=account.tls),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=_SILENCE),
        raise_for_status=True,
    ) as session:

        async def keep_publishing() -> None:
            while True:
                await changed.wait()
                await asyncio.sleep(_GATHER)
                changed.clear()
                if services.items is not None and endpoints.items is not None:
                    file.publish(hosts(services.items, endpoints.items))

        await asyncio.gather(services.follow(session), endpoints.follow(session), keep_publishing())


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield lines of any length: a large Endpoints object exceeds the reader's own limit."""
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


def main() -> None:
    kubeconfig, path, reader = map(Path, sys.argv[1:])
    asyncio.run(keep_names(load_account(kubeconfig), HostsFile(path, reader=reader)))


if __name__ == "__main__":
    main()
