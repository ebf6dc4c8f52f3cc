"""Asking a master over HTTP from asyncio: both sides prove that they know the job's token first.

A proof costs two more requests, so the nonce that comes with each answer is kept for the next
question. A question with a body is never asked on the strength of an old proof: the master may have
died, and somebody else may listen there by now.
"""

from __future__ import annotations

import aiohttp
from yarl import URL

from resile.wire.answer_size import LARGEST_ANSWER, TooLong
from resile.wire.client import Access
from resile.wire.digest import PROOF_PATH, Credentials
from resile.wire.errors import UNPROVEN, UnprovenPeer

__all__ = ["MasterHttpClient"]

SHORT = 64 * 1024
"""Bytes that an answer may have which says nothing but who answers."""


class MasterHttpClient:
    """Asks one master. The session is the caller's, and may serve others too."""

    def __init__(self, session: aiohttp.ClientSession, access: Access) -> None:
        self._session = session
        self._access = access
        self._proven: list[Credentials] = []
        """Those with a nonce left; as many as questions were under way at once."""

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: bytes | None = None,
        timeout: float,
        limit: int = LARGEST_ANSWER,
    ) -> bytes:
        """The answer's content. Raises :class:`UnprovenPeer`, :class:`TooLong` for more than
        ``limit`` bytes or what is compressed, or what aiohttp raises. The session must not
        decompress by itself."""
        url = URL(self._access.url(path)).with_query(query)
        credentials = self._proven.pop() if self._proven and body is None else None
        if credentials is not None:
            answer = await self._send(method, url, credentials, timeout=timeout, limit=limit)
            if answer is not None:
                return answer
        credentials = await self._prove(timeout)
        answer = await self._send(method, url, credentials, body=body, timeout=timeout, limit=limit)
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
                raise UnprovenPeer(f"what listens at {self._access.endpoint} is no Resile master")
        if await self._send("GET", url, credentials, timeout=timeout, limit=SHORT) is None:
            raise UnprovenPeer(f"the master at {self._access.endpoint} refused the token")
        return self._proven.pop()

    async def _send(
        self,
        method: str,
        url: URL,
        credentials: Credentials,
        *,
        body: bytes | None = None,
        timeout: float,
        limit: int,
    ) -> bytes | None:
        """The content of a proven answer; None if the nonce or the token was not accepted."""
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
                raise UnprovenPeer(f"what listens at {self._access.endpoint} {UNPROVEN}")
            self._proven.append(credentials)
            answer.raise_for_status()
            return await _read(answer, limit=limit)


async def _read(answer: aiohttp.ClientResponse, *, limit: int) -> bytes:
    """The whole answer. Not decompressed, and no more of it than there may be."""
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise TooLong("its answer is compressed, which nobody asked for")
    pieces: list[bytes] = []
    length = 0
    async for piece in answer.content.iter_any():
        pieces.append(piece)
        length += len(piece)
        if length > limit:
            raise TooLong(f"its answer is longer than {limit} bytes")
    return b"".join(pieces)


def _within(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds)
