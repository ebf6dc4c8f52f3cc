"""The HTTP client to the job API of a `resile up`, over the Unix socket in the job's folder."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec

from resile.decoding import DecodeError, decode_json
from resile.job.view import JobView
from resile.local.api_socket import socket_address
from resile.local.jobdir import JobDir
from resile.wire.errors import RefusedByPeer, Unreachable
from resile.wire.http_client import refusal_reason, why_unreachable
from resile.wire.views import EventView, LogFile

__all__ = ["UpClient"]

ANSWER_TIMEOUT = 10.0
"""Seconds. An answer takes milliseconds; on a machine that swaps it may take seconds."""

T = TypeVar("T")


class UpClient:
    """A client of the `up` of one job. Raises Unreachable, or RefusedByPeer with its reason."""

    def __init__(self, folder: JobDir) -> None:
        self._folder = folder
        self._path = f"/v1/jobs/{quote(folder.name, safe='')}"

    async def view(self) -> JobView:
        """Return the current view of the job."""
        return await self._ask("GET", "", JobView)

    async def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        """Return what happened after event ``since``; wait up to ``wait`` seconds for the first."""
        query = {"since": str(since), "wait": f"{wait:g}"}
        return await self._ask("GET", "/events", list[EventView], query=query, wait=wait)

    async def log_files(self) -> list[LogFile]:
        """Return the nodes that have output, with its size."""
        return await self._ask("GET", "/logs", list[LogFile])

    async def log(self, node: str, *, offset: int = 0) -> bytes:
        """Return a chunk of a node's output from ``offset`` on; empty at its end."""
        return await self._send(
            "GET", f"/logs/{quote(node, safe='')}", query={"offset": str(offset)}
        )

    async def scale(self, sizes: Mapping[str, int]) -> None:
        """Ask for other sizes, by role. Returns when the request is stored."""
        await self._ask("POST", "/scale", dict[str, Any], body=dict(sizes))

    async def suspend(self) -> None:
        """Ask for the job to be suspended. Returns when the request is stored."""
        await self._ask("POST", "/suspend", dict[str, Any])

    async def resume(self) -> None:
        """Ask for a suspended job to continue. Returns when the request is stored."""
        await self._ask("POST", "/resume", dict[str, Any])

    async def delete(self) -> None:
        """Ask for the job to be deleted. Returns when the request is stored."""
        await self._ask("DELETE", "", dict[str, Any])

    async def _ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        wait: float = 0.0,
    ) -> T:
        content = await self._send(method, path, body=body, query=query, wait=wait)
        try:
            return decode_json(content, kind)
        except DecodeError as error:
            raise RefusedByPeer(f"the answer of 'resile up' cannot be read: {error}") from None

    async def _send(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        wait: float = 0.0,
    ) -> bytes:
        try:
            with socket_address(self._folder.path) as address:
                async with (
                    aiohttp.ClientSession(
                        connector=aiohttp.UnixConnector(address),
                        timeout=aiohttp.ClientTimeout(total=ANSWER_TIMEOUT + wait),
                    ) as session,
                    session.request(
                        method,
                        f"http://up{self._path}{path}",
                        params=query,
                        data=None if body is None else msgspec.json.encode(body),
                    ) as answer,
                ):
                    content = await answer.read()
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise Unreachable(f"'resile up' does not answer: {why_unreachable(error)}") from None
        if answer.status != 200:
            raise RefusedByPeer(refusal_reason(content, answer.status), final=answer.status < 500)
        return content
