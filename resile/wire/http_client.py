"""The HTTP client to a job's master: both sides prove that they know the job's token first.

A proof costs two more requests, so the nonce that comes with each answer is kept for the next
request. A request with a body is never sent on the strength of an old proof: the master may have
died, and another program may have its port by now.

Every refusal carries a sentence. Raises :class:`Unreachable` where nothing answers and
:class:`RefusedByPeer` where the master refused, or what answers is not a master.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any, TypeVar

import aiohttp
import msgspec
from yarl import URL

from resile.decoding import DecodeError, decode_json
from resile.job.addresses import Addresses
from resile.job.training import TrainingView
from resile.wire.bounds import LARGEST_ANSWER, TooLong
from resile.wire.client import Access, connection_failure
from resile.wire.digest import PROOF_PATH, Credentials
from resile.wire.directive import Directive
from resile.wire.endpoint import Endpoint
from resile.wire.errors import UNPROVEN, RefusedByPeer, UnprovenPeer, Unreachable
from resile.wire.views import EventView, Refusal

__all__ = [
    "MasterHttpClient",
    "ask_addresses",
    "is_master",
    "master_session",
    "refusal_reason",
    "why_unreachable",
]

ANSWER_TIMEOUT = 10.0
"""Seconds. A master answers in milliseconds; one on a machine that swaps may take seconds."""

SHORT = 64 * 1024
"""Bytes: the limit of an answer that only identifies its sender."""


T = TypeVar("T")


def master_session() -> aiohttp.ClientSession:
    """Return a session for any number of masters. Each has a connection of its own for events; it
    decompresses nothing and keeps no cookies, because a master is only as trustworthy as the
    job's own code."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"Accept-Encoding": "identity"},
    )


class MasterHttpClient:
    """A client of one master. The session is the caller's, and may serve others too."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        access: Access,
        *,
        timeout: float = ANSWER_TIMEOUT,
    ) -> None:
        self._session = session
        self._access = access
        self._timeout = timeout
        self.limit = LARGEST_ANSWER
        """The limit of an answer in bytes."""
        self._proven: list[Credentials] = []
        """Credentials with an unused nonce: as many as there were concurrent requests."""

    async def trainings(self) -> dict[str, TrainingView]:
        """Return the training of every group, by name; the main group's name is empty."""
        return await self._ask("GET", "/v1/trainings", dict[str, TrainingView])

    async def status(self) -> TrainingView:
        """Return the training of the main group."""
        return await self._ask("GET", "/v1/status", TrainingView)

    async def direct(self, directive: Directive) -> None:
        """Send the controller's directive. Returns when the master has stored it."""
        await self._ask("PUT", "/v1/directive", dict[str, Any], body=directive)

    async def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        """Return the events after ``since``; wait up to ``wait`` seconds for the first."""
        query = {"since": str(since), "wait": f"{wait:g}"}
        return await self._ask("GET", "/v1/events", list[EventView], query=query, wait=wait)

    async def addresses(self) -> Addresses:
        """Return the addresses of the job's nodes; refused while none are known."""
        return await self._ask("GET", "/v1/addresses", Addresses)

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
        content = None if body is None else msgspec.json.encode(body)
        try:
            answer = await self._request(
                method, path, query=query, body=content, timeout=self._timeout + wait
            )
            return decode_json(answer, kind)
        except (TooLong, DecodeError) as error:
            raise RefusedByPeer(
                f"what listens at {self._access.endpoint} gave no answer of a Resile master: "
                f"{error}"
            ) from None
        except aiohttp.ClientSSLError as error:
            raise connection_failure(error, self._access) from None
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            why = why_unreachable(error)
            raise Unreachable(f"no master answers at {self._access.endpoint}: {why}") from None

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None,
        body: bytes | None,
        timeout: float,
    ) -> bytes:
        url = URL(self._access.url(path)).with_query(query)
        credentials = self._proven.pop() if self._proven and body is None else None
        if credentials is not None:
            answer = await self._send(method, url, credentials, timeout=timeout)
            if answer is not None:
                return answer
        credentials = await self._prove(timeout)
        answer = await self._send(method, url, credentials, body=body, timeout=timeout)
        if answer is None:
            raise UnprovenPeer(f"what listens at {self._access.endpoint} changed meanwhile")
        return answer

    async def _prove(self, timeout: float) -> Credentials:
        credentials, url = Credentials(self._access.token), URL(self._access.url(PROOF_PATH))
        async with self._session.get(
            url, ssl=self._access.tls or True, timeout=_within(timeout), allow_redirects=False
        ) as answer:
            challenge = answer.headers.get("WWW-Authenticate")
            if answer.status != 401 or not credentials.challenged(challenge):
                where = self._access.endpoint
                raise UnprovenPeer(f"what listens at {where} is no Resile master", final=True)
        if await self._send("GET", url, credentials, timeout=timeout, limit=SHORT) is None:
            raise UnprovenPeer(
                f"the master at {self._access.endpoint} refused the token", final=True
            )
        return self._proven.pop()

    async def _send(
        self,
        method: str,
        url: URL,
        credentials: Credentials,
        *,
        body: bytes | None = None,
        timeout: float,
        limit: int | None = None,
    ) -> bytes | None:
        """Return the content of a proven answer; None if the nonce or token was not accepted."""
        async with self._session.request(
            method,
            url,
            data=body,
            headers=credentials.authorization(method, url.raw_path_qs),
            ssl=self._access.tls or True,
            timeout=_within(timeout),
            allow_redirects=False,
        ) as answer:
            if answer.status == 401:
                return None
            if not credentials.proven_by(answer.headers.get("Authentication-Info")):
                where = self._access.endpoint
                raise UnprovenPeer(f"what listens at {where} {UNPROVEN}", final=True)
            self._proven.append(credentials)
            content = await _read(answer, limit=self.limit if limit is None else limit)
            if answer.status != 200:
                raise RefusedByPeer(
                    refusal_reason(content, answer.status), final=answer.status < 500
                )
            return content


async def _read(answer: aiohttp.ClientResponse, *, limit: int) -> bytes:
    """Read the whole answer up to the limit, without decompression."""
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise TooLong("it is compressed, which nobody asked for")
    pieces: list[bytes] = []
    length = 0
    async for piece in answer.content.iter_any():
        pieces.append(piece)
        length += len(piece)
        if length > limit:
            raise TooLong(f"it is longer than {limit} bytes")
    return b"".join(pieces)


def _within(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds)


async def ask_addresses(access: Access) -> Addresses:
    """Ask a job's master once for the addresses of its nodes."""
    async with master_session() as session:
        return await MasterHttpClient(session, access).addresses()


async def is_master(endpoint: Endpoint, *, timeout: float = 2.0) -> bool:
    """Return whether some job's master listens there; asking takes no token."""
    url = Access(endpoint, token="").url(PROOF_PATH)
    try:
        async with (
            master_session() as session,
            session.get(url, timeout=_within(timeout), allow_redirects=False) as answer,
        ):
            return Credentials(token="").challenged(answer.headers.get("WWW-Authenticate"))
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError):
        return False


def refusal_reason(content: bytes, status: int) -> str:
    """Return the sentence of a refusal."""
    try:
        return decode_json(content, Refusal).error
    except DecodeError:
        return content.decode(errors="replace").strip() or f"HTTP {status}"


def why_unreachable(error: Exception) -> str:
    """Return a few words that say why there was no answer."""
    if isinstance(error, (asyncio.TimeoutError, TimeoutError)):
        return "it took too long"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return "it hung up"
