"""An agent's connection to the master, from Hello to its loss.

A connection is opened once and not repaired: ``link.py`` reconnects.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType

import aiohttp

from resile.wire.codec import MAX_FRAME, decode_from_master, encode_from_agent
from resile.wire.digest import Credentials
from resile.wire.endpoint import Endpoint
from resile.wire.errors import (
    UNPROVEN,
    Disconnected,
    NoAnswer,
    RefusedByPeer,
    UnprovenPeer,
    Unreachable,
    WireError,
)
from resile.wire.messages import Fenced, FromAgent, FromMaster, Hello, JobDone, Refused, Welcome

AGENT_PATH = "/v1/agent"
CONNECT_TIMEOUT = 5.0
"""Seconds. A master on a busy machine answers within one; a broken network never does."""

CLOSE_TIMEOUT = 1.0
"""Seconds that a master may take to close a connection; one that hangs never does."""


@dataclass(frozen=True)
class Access:
    """The address of a master, and the credentials for it."""

    endpoint: Endpoint
    token: str
    tls: ssl.SSLContext | None = None

    def url(self, path: str) -> str:
        """Return the URL of ``path`` at this master."""
        return f"{'https' if self.tls else 'http'}://{self.endpoint}{path}"


class AgentConnection:
    """A connection. ``send`` and ``receive`` raise :class:`Disconnected` when it is gone."""

    def __init__(
        self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse[bool]
    ) -> None:
        self._session = session
        self._socket = socket
        self._seq = 0
        self.answers = 0
        """Counts everything received from the master, answers to pings included."""

    async def send(self, body: FromAgent) -> None:
        """Send a message."""
        self._seq += 1
        try:
            await self._socket.send_bytes(encode_from_agent(self._seq, body))
        except (ConnectionError, aiohttp.ClientError, RuntimeError) as error:
            raise Disconnected(str(error)) from None

    async def receive(self) -> FromMaster:
        """Return the master's next message."""
        while (message := await self._socket.receive()).type is aiohttp.WSMsgType.PONG:
            self.answers += 1
        self.answers += 1
        if message.type is not aiohttp.WSMsgType.BINARY:
            raise Disconnected(f"the master closed the connection ({self._why(message.extra)})")
        return decode_from_master(message.data).body

    async def ping(self) -> None:
        """Send a ping; its answer is counted in ``answers``."""
        try:
            await self._socket.ping()
        except (ConnectionError, aiohttp.ClientError, RuntimeError) as error:
            raise Disconnected(str(error)) from None

    def _why(self, said: object) -> str:
        if self._socket.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG:
            return f"a message of more than {MAX_FRAME} bytes was sent"
        return str(said or "no reason")

    async def close(self) -> None:
        """Close the connection; also when it is lost already."""
        try:
            await self._socket.close()
        finally:
            await self._session.close()

    async def __aenter__(self) -> AgentConnection:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


async def connect(access: Access) -> AgentConnection:
    """Open a connection; the caller has to call :func:`greet` next."""
    opened = await open_socket(access, AGENT_PATH, largest=MAX_FRAME, autoping=False)
    return AgentConnection(*opened)


async def open_socket(
    access: Access, path: str, *, largest: int, autoping: bool = True
) -> tuple[aiohttp.ClientSession, aiohttp.ClientWebSocketResponse[bool]]:
    """Open a WebSocket to ``path``; raises a :class:`WireError` that says why it failed.

    Nothing is sent over it before the master has proven that it knows the job's token.
    """
    answers = _Answers()
    session = aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None), trace_configs=[answers.trace]
    )
    try:
        opening = _open_proven(session, answers, access, path, largest=largest, autoping=autoping)
        socket = await asyncio.wait_for(opening, CONNECT_TIMEOUT)
    except aiohttp.WSServerHandshakeError as error:
        await session.close()
        raise _refusal(error, access.endpoint) from None
    except (aiohttp.ClientError, OSError, asyncio.TimeoutError) as error:
        await session.close()
        raise connection_failure(error, access) from None
    except BaseException:
        await session.close()
        raise
    return session, socket


class _Answers:
    """The headers of a session's latest answer, which aiohttp's WebSocket does not expose."""

    def __init__(self) -> None:
        self.headers: Mapping[str, str] = {}
        self.trace = aiohttp.TraceConfig()
        self.trace.on_request_end.append(self._ended)

    async def _ended(
        self,
        _session: aiohttp.ClientSession,
        _context: object,
        params: aiohttp.TraceRequestEndParams,
    ) -> None:
        self.headers = params.response.headers


async def _open_proven(
    session: aiohttp.ClientSession,
    answers: _Answers,
    access: Access,
    path: str,
    *,
    largest: int,
    autoping: bool,
) -> aiohttp.ClientWebSocketResponse[bool]:
    credentials = Credentials(access.token)
    async with session.get(access.url(path), ssl=access.tls or True) as answer:
        if answer.status != 401 or not credentials.challenged(
            answer.headers.get("WWW-Authenticate")
        ):
            raise _no_master(answer.status, access.endpoint)
    socket = await session.ws_connect(
        access.url(path),
        headers=credentials.authorization("GET", path),
        max_msg_size=largest,
        autoping=autoping,
        ssl=access.tls or True,
        timeout=aiohttp.ClientWSTimeout(ws_close=CLOSE_TIMEOUT),
    )
    if not credentials.proven_by(answers.headers.get("Authentication-Info")):
        raise UnprovenPeer(f"the server at {access.endpoint} {UNPROVEN}", final=True)
    return socket


def _refusal(error: aiohttp.WSServerHandshakeError, endpoint: Endpoint) -> UnprovenPeer:
    if error.status == 401:
        # A nonce that is too old is from a master that has been restarted since.
        stale = error.headers is not None and Credentials.is_stale(
            error.headers.get("WWW-Authenticate")
        )
        reason = f"the master at {endpoint} refused the token: it belongs to another job"
        return UnprovenPeer(reason, final=not stale)
    if error.status == 403:
        reason = f"the master at {endpoint} refused the token: it has the scope read, not write"
        return UnprovenPeer(reason, final=True)
    return _no_master(error.status, endpoint)


def _no_master(status: int, endpoint: Endpoint) -> UnprovenPeer:
    reason = f"the server at {endpoint} is not a Resile master (HTTP {status})"
    return UnprovenPeer(reason, final=status < 500)


def connection_failure(error: Exception, access: Access) -> WireError:
    """Return the error for a failed connection, with what a person could do about it."""
    endpoint = access.endpoint
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", "") or error.certificate_error
        reason = f"the certificate of the master at {endpoint} is not trusted: {why} (see --tls-ca)"
        return UnprovenPeer(reason, final=True)
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        reason = f"the server at {endpoint} does not use TLS; omit --tls-ca if it need not"
        return UnprovenPeer(reason, final=True)
    if isinstance(error, aiohttp.ClientResponseError):
        return UnprovenPeer(f"the server at {endpoint} is not a Resile master", final=True)
    if isinstance(error, asyncio.TimeoutError):
        return NoAnswer(f"no master answers at {endpoint} within {CONNECT_TIMEOUT:g} s")
    if isinstance(error, aiohttp.ClientConnectorError):
        why = os.strerror(error.errno) if error.errno else str(error)
        return Unreachable(f"no master answers at {endpoint}: {why}")
    # A master that dies at this moment looks the same: worth a retry.
    hint = "" if access.tls else "; if it uses TLS, give --tls-ca"
    return Unreachable(f"the server at {endpoint} closed the connection without an answer{hint}")


async def greet(connection: AgentConnection, hello: Hello) -> Welcome | Fenced | JobDone:
    """Send the Hello: return the answer, or raise RefusedByPeer."""
    await connection.send(hello)
    answer = await asyncio.wait_for(connection.receive(), CONNECT_TIMEOUT)
    match answer:
        case Welcome() | Fenced() | JobDone():
            return answer
        case Refused(reason=reason, final=final):
            raise RefusedByPeer(reason, final=final)
        case _:
            raise RefusedByPeer(f"unexpected first answer {type(answer).__name__}", final=True)
