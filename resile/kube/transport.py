"""The HTTP transport of the client: a request in, a decoded response or one of our errors out.

It uses aiohttp, as everything else here that speaks HTTP; none of its errors leave this module.
One connection pool is shared by all requests and created with the first of them, because it
belongs to the event loop that runs then. aiohttp itself sends a GET or DELETE a second time if
the pooled connection that it was sent on turns out to be closed. Anything else is sent once.

A cluster's ``proxy-url`` takes precedence over ``$HTTPS_PROXY``, ``$HTTP_PROXY`` and
``$ALL_PROXY``, and ``$NO_PROXY`` lists hosts that are reached directly: names with their
subdomains, addresses and networks (10.0.0.0/8), each with or without a port, or ``*`` for all.
aiohttp's own support (``trust_env``) is not used: it does not know networks, and sends passwords
from ``~/.netrc`` to the server.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from urllib.parse import SplitResult, quote, urlsplit
from urllib.request import getproxies

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from resile.decoding import DecodeError, decode_json
from resile.kube.auth import Credential, PluginAuth, authentication_of, tls_context
from resile.kube.errors import ApiUnreachable, ConfigError, Invalid, error_from_response
from resile.kube.kubeconfig import ClusterConfig, UserEntry
from resile.kube.resources import KubeObject

__all__ = [
    "REQUEST_TIMEOUT",
    "Transport",
    "proxy_for",
]


SCHEMES = frozenset({"http", "https"})


def proxy_for(config: ClusterConfig, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the proxy's URL, or None. Raises ConfigError, which names the setting, if it is not a
    valid proxy.

    ``environment``: proxies by scheme, as :func:`urllib.request.getproxies` has them.
    """
    if named := config.cluster.proxy_url:
        where = f"the 'proxy-url' in {config.file} (context {config.context_name!r})"
        return _checked(named, where=where)
    proxies = getproxies() if environment is None else environment
    server = urlsplit(config.cluster.server)
    if _is_excepted(server, proxies.get("no", "")):
        return None
    for scheme in (server.scheme, "all"):
        if named := proxies.get(scheme):
            with_scheme = named if "://" in named else f"http://{named}"
            return _checked(with_scheme, where=f"the proxy in ${scheme.upper()}_PROXY")
    return None


def _checked(url: str, *, where: str) -> str:
    if why := _why_not(url):
        raise ConfigError(f"{where} cannot be used: {why}")
    return url


def _why_not(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname and parts.port != 0
    except ValueError as error:
        return str(error)
    if parts.scheme not in SCHEMES:
        return f"its scheme is {parts.scheme!r}, and only http and https proxies are supported"
    return "" if host else "it has no host"


def _is_excepted(server: SplitResult, listed: str) -> bool:
    entries = [entry.strip().lower() for entry in listed.split(",")]
    return any(entry == "*" or _covers(entry, server) for entry in entries if entry)


def _covers(entry: str, server: SplitResult) -> bool:
    host = server.hostname or ""
    with suppress(ValueError):
        # A network, or an address with or without brackets.
        network = ipaddress.ip_network(entry.strip("[]"), strict=False)
        try:
            return ipaddress.ip_address(host) in network
        except ValueError:
            return False
    name, _, port = entry.rpartition(":")
    if name and port.isdecimal():
        return int(port) == _port_of(server) and _covers(name, server)
    domain = entry.removeprefix("*").removeprefix(".")
    return host.endswith(f".{domain}") or (host == domain and domain == entry)


def _port_of(server: SplitResult) -> int:
    return server.port or (443 if server.scheme == "https" else 80)


REQUEST_TIMEOUT = 10.0
"""Seconds. An API server under load answers faster; one that takes longer is as good as gone."""

CONNECTIONS = 100
"""Concurrent connections, shared by all jobs; each watch and each followed log holds one."""

IN_A_HEADER = "!#$&'*+.^_`|~"
"""Characters allowed in a header's name, besides those that never need quoting."""

UNAUTHORIZED = 401


class Transport:
    """A connection pool to one API server as one user. Nothing is sent before a request."""

    def __init__(self, config: ClusterConfig, *, agent: str) -> None:
        self.server: str = config.cluster.server
        try:
            self._tls = tls_context(config.cluster, config.user)
        except (ssl.SSLError, OSError, ValueError) as error:
            raise ConfigError(
                f"the credentials of context {config.context_name!r} cannot be used: {error}"
            ) from None
        self._auth = authentication_of(config.user, tls=self._tls)
        self._proxy = proxy_for(config)
        self._tls_name = config.cluster.tls_server_name or None
        self._headers = _headers(config.user, agent=agent)
        self._session: aiohttp.ClientSession | None = None

    @property
    def awaited(self) -> str:
        """The server or credential plugin that a pending request waits for, in words."""
        if isinstance(self._auth, PluginAuth) and self._auth.asking:
            return str(self._auth)
        return f"the API server at {self.server}"

    async def aclose(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content: str = "application/json",
    ) -> KubeObject:
        """Send one request and return the response. Empty values of ``query`` are left out."""
        request = _Request(
            method,
            self._url(path, query or {}),
            body=None if body is None else _encoded(body),
            content=content,
            silence=REQUEST_TIMEOUT,
        )
        answer = await self._send(request)
        with self._plain_errors():
            received = await answer.read()
        if not _is_success(answer):
            raise error_from_response(answer.status, received)
        return self.decoded(received)

    async def stream(
        self, path: str, *, query: Mapping[str, str], silence: float | None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of a response; ApiUnreachable after ``silence`` seconds without one."""
        answer = await self._send(_Request("GET", self._url(path, query), silence=silence))
        with self._plain_errors():
            async with answer:
                if not _is_success(answer):
                    raise error_from_response(answer.status, await answer.read())
                async for chunk in answer.content.iter_any():
                    yield chunk

    async def lines(
        self, path: str, *, query: Mapping[str, str], silence: float | None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a streamed response. A line ends at a line feed only: JSON strings may
        contain other line breaks."""
        rest = b""
        async with aclosing(self.stream(path, query=query, silence=silence)) as chunks:
            async for chunk in chunks:
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line

    def decoded(self, content: bytes) -> KubeObject:
        """Decode the object in a response."""
        try:
            return decode_json(content, KubeObject)
        except DecodeError as error:
            raise ApiUnreachable(
                f"the server at {self.server} is not a Kubernetes API server: {error}"
            ) from None

    def _url(self, path: str, query: Mapping[str, str]) -> URL:
        """The URL of a quoted path; a server's own address may have a path, too."""
        url = URL(self.server.rstrip("/") + path, encoded=True)
        return url.with_query({name: value for name, value in query.items() if value})

    async def _send(self, request: _Request) -> aiohttp.ClientResponse:
        """Send a request and return the response's head. Rejected credentials are renewed once."""
        credential = await self._auth.credential()
        answer = await self._send_as(credential, request)
        if answer.status == UNAUTHORIZED:
            with self._plain_errors():
                await answer.read()  # returns the connection to the pool
            renewed = await self._auth.credential(refused=credential)
            if renewed != credential:
                answer = await self._send_as(renewed, request)
        return answer

    async def _send_as(self, credential: Credential, request: _Request) -> aiohttp.ClientResponse:
        headers = CIMultiDict[str]()
        if request.body is not None:
            headers["Content-Type"] = request.content
        if credential.authorization is not None:
            headers["Authorization"] = _sendable("Authorization", credential.authorization)
        with self._plain_errors():
            return await self._opened().request(
                request.method,
                request.url,
                data=request.body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(connect=REQUEST_TIMEOUT, sock_read=request.silence),
                allow_redirects=False,
                proxy=self._proxy,
                server_hostname=self._tls_name,
            )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS, ssl=self._tls),
                headers=self._headers,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Turn the library's errors into ours."""
        try:
            yield
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise ApiUnreachable(
                f"the API server at {self.server} does not answer: {_why(error)}"
            ) from None


class _Request(msgspec.Struct, frozen=True):
    """A request; it may have to be sent twice. ``silence``: timeout without a byte of response."""

    method: str
    url: URL
    silence: float | None
    body: bytes | None = None
    content: str = ""


def _headers(user: UserEntry, *, agent: str) -> CIMultiDict[str]:
    """The headers of all requests, impersonation included."""
    impersonation = [("Impersonate-User", user.as_user), ("Impersonate-Uid", user.as_uid)]
    impersonation += [("Impersonate-Group", group) for group in user.as_groups or ()]
    for key, values in (user.as_user_extra or {}).items():
        header = f"Impersonate-Extra-{quote(key, safe=IN_A_HEADER)}"
        impersonation += [(header, value) for value in values]
    headers = CIMultiDict({"User-Agent": agent})
    for name, text in impersonation:
        if text:
            headers.add(name, _sendable(name, text))
    return headers


def _sendable(header: str, text: str) -> str:
    if any(end in text for end in "\r\n\0"):
        raise ConfigError(f"the credentials hold a line break, which a {header} header cannot have")
    return text


def _encoded(body: object) -> bytes:
    """Encode a request's body; what cannot be encoded is Invalid, as if the API server said so."""
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Invalid(422, "Invalid", message=f"it cannot be sent: {error}") from None


def _is_success(answer: aiohttp.ClientResponse) -> bool:
    return 200 <= answer.status < 300


def _why(error: Exception) -> str:
    """Describe an error. aiohttp's own messages name its objects, and several causes at once."""
    if isinstance(error, asyncio.TimeoutError):
        return "timed out"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientResponseError):
        return "its response is not HTTP"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        return f"its certificate is not trusted: {getattr(cause, 'verify_message', cause)}"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "it closed the connection"
    if isinstance(error, aiohttp.ClientConnectorError):
        whom = "the proxy: " if isinstance(error, aiohttp.ClientProxyConnectionError) else ""
        return whom + _in_words(error.os_error)
    closed = "it closed the connection"
    return _in_words(error) if isinstance(error, OSError) else str(error) or closed


def _in_words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) or not error.errno or error.errno < 0:
        return error.strerror or str(error) or "it closed the connection"
    return os.strerror(error.errno)
