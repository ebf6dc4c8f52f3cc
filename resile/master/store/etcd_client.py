"""A client of etcd's v3 JSON gateway with the few calls a store needs, and retries.

The address is ``etcd://HOST:PORT[,HOST:PORT...]/PREFIX[?KEY=VALUE]``. Keys and values travel as
base64, 64-bit numbers as text; callers see neither. A call without an answer may have been
executed, so every caller has to be idempotent. With several hosts the next one is asked after each
failure.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import time
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import aiohttp

from resile.decoding import DecodeError, decode_json
from resile.master.store.base import StoreUnusable
from resile.wire.endpoint import Endpoint

DEFAULT_PORT = 2379
DEFAULT_PREFIX = "/resile"

MIN_LEASE = 2
"""The shortest that etcd grants with its default timings, in seconds."""


@dataclass(frozen=True)
class EtcdAddress:
    """The hosts of an etcd, the prefix of one master's keys, and timeouts."""

    hosts: tuple[Endpoint, ...]
    prefix: str = DEFAULT_PREFIX
    tls: bool = False

    lease: int = 5
    """Seconds after which a silent master may be replaced; as long as a node's own lease."""

    patience: float = 30.0
    """Seconds for which requests to an unavailable etcd are retried. The cause is most likely an
    election or a restart; training continues meanwhile and nothing is lost."""

    def __str__(self) -> str:
        hosts = ",".join(str(host) for host in self.hosts)
        return f"{'etcds' if self.tls else 'etcd'}://{hosts}{self.prefix}"


def parse_etcd_url(text: str) -> EtcdAddress:
    """Parse a URL; ``etcds://`` is TLS. Raises StoreUnusable with what is wrong."""
    url, _, query = text.partition("?")
    scheme, _, rest = url.partition("://")
    hosts, _, path = rest.partition("/")
    if scheme not in ("etcd", "etcds") or not hosts:
        raise StoreUnusable(f"--store {text}: write etcd://HOST:PORT[,HOST:PORT...]/PREFIX")
    if "@" in hosts:
        raise StoreUnusable(
            "--store: a user and password on the command line can be read by everybody on this "
            "machine; leave them out"
        )
    settings = _parse_settings(query, text)
    return EtcdAddress(
        hosts=tuple(_parse_host(host, text) for host in hosts.split(",")),
        prefix="/" + path.strip("/") if path.strip("/") else DEFAULT_PREFIX,
        tls=scheme == "etcds",
        lease=int(settings.get("lease", EtcdAddress.lease)),
        patience=settings.get("patience", EtcdAddress.patience),
    )


def _parse_host(host: str, text: str) -> Endpoint:
    try:
        parts = urlsplit(f"//{host}")
        name, port = parts.hostname, parts.port
    except ValueError:
        name, port = None, None
    if not name:
        raise StoreUnusable(f"--store {text}: '{host}' is not HOST:PORT")
    return Endpoint(name, DEFAULT_PORT if port is None else port)


def _parse_settings(query: str, text: str) -> dict[str, float]:
    settings: dict[str, float] = {}
    smallest = {"lease": MIN_LEASE, "patience": 0}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in smallest:
            raise StoreUnusable(f"--store {text}: '{key}' is neither lease nor patience")
        try:
            settings[key] = float(value)
        except ValueError:
            settings[key] = math.nan
        if not smallest[key] <= settings[key] < math.inf:
            raise StoreUnusable(
                f"--store {text}: {key} must be a number of seconds, at least {smallest[key]}"
            )
    return settings


Json: TypeAlias = dict[str, Any]

CALL_TIMEOUT = 3.0
"""Seconds. A healthy etcd answers in milliseconds; during an election it needs a second or two."""

RETRY_INTERVAL = 0.2

PAGE = 500
"""Keys per range request: keeps each answer far below what a proxy might cut off."""


# --- parts of a transaction ---------------------------------------------------------------------


def put(key: str, value: bytes, *, lease: int | None = None) -> Json:
    """Write a key; with a lease it is deleted when the lease ends."""
    request = {"key": _text(key.encode()), "value": _text(value)}
    return {"request_put": request if lease is None else {**request, "lease": str(lease)}}


def delete(key: str) -> Json:
    """Delete a key, whether it exists or not."""
    return {"request_delete_range": {"key": _text(key.encode())}}


def delete_below(folder: str) -> Json:
    """Delete every key that starts with ``folder``."""
    return {"request_delete_range": _range_below(folder)}


def equals(key: str, value: bytes) -> Json:
    """The condition that a key has a value."""
    return {
        "key": _text(key.encode()),
        "target": "VALUE",
        "result": "EQUAL",
        "value": _text(value),
    }


def absent(key: str) -> Json:
    """The condition that a key does not exist."""
    return {
        "key": _text(key.encode()),
        "target": "CREATE",
        "result": "EQUAL",
        "create_revision": "0",
    }


# --- calls --------------------------------------------------------------------------------------


class EtcdClient:
    """An etcd cluster. Every call raises StoreUnusable when it fails for good."""

    def __init__(self, address: EtcdAddress, *, patience: float) -> None:
        """``patience``: seconds for which calls to an unavailable etcd are retried."""
        self.address = address
        self.patience = patience
        self._hosts = list(address.hosts)
        self._tls = ssl.create_default_context() if address.tls else None
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def transact(self, conditions: Sequence[Json], operations: Sequence[Json]) -> bool:
        """Execute all operations if all conditions hold; return whether they did."""
        answer = await self._call("kv/txn", {"compare": conditions, "success": operations})
        return bool(answer.get("succeeded", False))

    async def get(self, key: str) -> bytes | None:
        """Return the value of a key, None if it does not exist."""
        answer = await self._call("kv/range", {"key": _text(key.encode())})
        found = answer.get("kvs", [])
        return _bytes(found[0].get("value", "")) if found else None

    async def list_below(self, folder: str) -> dict[str, bytes]:
        """Return all keys that start with ``folder``, without that prefix, and their values."""
        found: dict[str, bytes] = {}
        request = {**_range_below(folder), "limit": str(PAGE)}
        while True:
            answer = await self._call("kv/range", request)
            pairs = answer.get("kvs", [])
            for pair in pairs:
                key = _bytes(pair["key"]).decode().removeprefix(folder)
                found[key] = _bytes(pair.get("value", ""))
            if not answer.get("more", False):
                return found
            request["key"] = _text(_bytes(pairs[-1]["key"]) + b"\0")

    async def grant(self, ttl: int) -> int:
        """Create a lease and return its id."""
        return int((await self._call("lease/grant", {"TTL": str(ttl)}))["ID"])

    async def keep_alive(self, lease: int) -> bool:
        """Renew a lease; False if it has expired."""
        answer = await self._call("lease/keepalive", {"ID": str(lease)})
        return int(answer.get("result", {}).get("TTL", "0")) > 0

    async def revoke(self, lease: int) -> None:
        """End a lease and delete its keys."""
        await self._call("lease/revoke", {"ID": str(lease)})

    async def _call(self, path: str, request: Mapping[str, Any]) -> Json:
        deadline = time.monotonic() + self.patience
        while True:
            try:
                return await self._ask(self._hosts[0], path, request)
            except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
                why = str(error) or "no answer"
            if time.monotonic() >= deadline:
                raise StoreUnusable(
                    f"the store {self.address} did not answer for {self.patience:g} s: {why}"
                )
            self._hosts.append(self._hosts.pop(0))
            await asyncio.sleep(RETRY_INTERVAL)

    async def _ask(self, host: Endpoint, path: str, request: Mapping[str, Any]) -> Json:
        """Make one attempt. Raises aiohttp's errors for what a retry or another host may cure."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(CALL_TIMEOUT))
        scheme = "http" if self._tls is None else "https"
        url = f"{scheme}://{host}/v3/{path}"
        async with self._session.post(url, json=request, ssl=self._tls or True) as response:
            said = _decode(await response.read())
            if response.status >= 500 or response.status == 429:
                raise aiohttp.ClientError(_complaint(said, response.status))
            if response.status != 200:
                complaint = _complaint(said, response.status)
                raise StoreUnusable(f"the store {self.address} refused {path}: {complaint}")
            if not said:
                raise StoreUnusable(f"the server at {host} is not etcd 3.4 or later")
            return said


def _decode(body: bytes) -> Json:
    """The JSON object in an answer; empty if the server is not etcd."""
    try:
        return decode_json(body, dict[str, Any])
    except DecodeError:
        return {}


def _complaint(said: Json, status: int) -> str:
    return str(said.get("message") or said.get("error") or f"HTTP {status}")


def _text(value: bytes) -> str:
    return b64encode(value).decode()


def _bytes(text: str) -> bytes:
    return b64decode(text)


def _range_below(folder: str) -> Json:
    start = folder.encode()
    return {"key": _text(start), "range_end": _text(start[:-1] + bytes([start[-1] + 1]))}
