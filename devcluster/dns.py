"""The process that keeps the DNS up to date: python -m devcluster.dns KUBECONFIG HOSTS PIDFILE

Two watches, of Services and of Endpoints, each keep one collection; after a change the hosts file
is written anew and dnsmasq, known by its pid file, is told to read it. When the API server is away
the last answers stay; a watch that ends for any reason begins again with a list.
"""

import asyncio
import json
import signal
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

from devcluster import identity
from devcluster.api import Account, load_account
from devcluster.files import write
from devcluster.hosts import hosts

# Many endpoints change at once when a job starts; one reading of the file serves them all.
_GATHER = 0.05
_TRY_AGAIN = 0.5
# A connection that died without a word is noticed after this long: the server ends a watch earlier.
_WATCH_SECONDS = 120
_SILENCE = 150.0


class Collection:
    """All objects of one kind, as far as heard of."""

    def __init__(self, path: str, changed: asyncio.Event) -> None:
        self._path = path
        self._changed = changed
        self._items: dict[str, dict[str, Any]] = {}
        self.is_known = False

    def __iter__(self) -> Any:
        return iter(self._items.values())

    async def follow(self, session: aiohttp.ClientSession) -> None:
        """Keep up for ever."""
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
        self.is_known = True
        self._changed.set()
        return str(document["metadata"]["resourceVersion"])

    async def _watch(self, session: aiohttp.ClientSession, version: str) -> None:
        query = {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(_WATCH_SECONDS)}
        async with session.get(self._path, params=query) as response:
            async for line in _lines(response.content):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                item = event["object"]
                if event["type"] == "DELETED":
                    self._items.pop(item["metadata"]["uid"], None)
                else:
                    self._items[item["metadata"]["uid"]] = item
                self._changed.set()


async def keep_hosts(account: Account, *, file: Path, pid_file: Path) -> None:
    """Follow both collections and write what they say."""
    changed = asyncio.Event()
    services = Collection("/api/v1/services", changed)
    endpoints = Collection("/api/v1/endpoints", changed)
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=_SILENCE)
    async with aiohttp.ClientSession(
        account.url,
        connector=aiohttp.TCPConnector(ssl=account.tls),
        timeout=timeout,
        raise_for_status=True,
    ) as session:
        followers = [asyncio.create_task(one.follow(session)) for one in (services, endpoints)]
        writer = asyncio.create_task(_keep_writing(services, endpoints, changed, file, pid_file))
        await asyncio.gather(*followers, writer)


async def _keep_writing(
    services: Collection,
    endpoints: Collection,
    changed: asyncio.Event,
    file: Path,
    pid_file: Path,
) -> None:
    while True:
        await changed.wait()
        await asyncio.sleep(_GATHER)
        changed.clear()
        if not (services.is_known and endpoints.is_known):
            continue
        text = hosts(services, endpoints)
        if text != file.read_text():
            write(file, text)
            if dnsmasq := identity.read(pid_file):
                dnsmasq.send(signal.SIGHUP)


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length: a large Endpoints object exceeds the reader's own limit."""
    rest = b""
    async for chunk in stream.iter_any():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line


def main() -> None:
    kubeconfig, file, pid_file = map(Path, sys.argv[1:])
    try:
        asyncio.run(keep_hosts(load_account(kubeconfig), file=file, pid_file=pid_file))
    except ssl.SSLError as error:
        sys.exit(f"{kubeconfig} is of another cluster: {error}")


if __name__ == "__main__":
    main()
