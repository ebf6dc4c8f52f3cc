"""The HTTP underneath: a request in, a decoded answer or one of our errors out.

lightkube finds out how to authenticate and whom to trust; nothing else of it is used, and no error
of it or of the HTTP client leaves this module. What it does not know of a kubeconfig is added
here: whom to impersonate, proxies, the name that a server's certificate has, and credential
plugins (``credentials``).
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2
import msgspec
from lightkube.config.client_adapter import ConnectionParams
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError as LightkubeConfigError

from resile.decoding import DecodeError, decode_json
from resile.platform.kubernetes.credentials import PluginAuth, PluginEntry
from resile.platform.kubernetes.errors import ConfigError, Invalid, Unreachable, refusal
from resile.platform.kubernetes.kinds import KubeObject

__all__ = ["REQUEST_TIMEOUT", "ClusterEntry", "Connection", "UserEntry"]

REQUEST_TIMEOUT = 10.0
"""An API server under load answers within seconds; one that takes longer is as good as away."""

IN_A_HEADER = "!#$&'*+.^_`|~"
"""What may stand in a header's name, beside what never needs quoting."""


class ClusterEntry(Cluster):
    """A kubeconfig's cluster, with what lightkube leaves out."""

    proxy_url: str | None = msgspec.field(name="proxy-url", default=None)
    tls_server_name: str | None = msgspec.field(name="tls-server-name", default=None)


class UserEntry(User):
    """A kubeconfig's user, likewise."""

    exec: PluginEntry | None = None
    as_user: str | None = msgspec.field(name="as", default=None)
    as_uid: str | None = msgspec.field(name="as-uid", default=None)
    as_groups: list[str] | None = msgspec.field(name="as-groups", default=None)
    as_extra: dict[str, list[str]] | None = msgspec.field(name="as-user-extra", default=None)


class Connection:
    """The way to one API server, as one user. Nothing is sent before the first request."""

    def __init__(self, config: SingleConfig, *, agent: str) -> None:
        self.server: str = config.cluster.server
        name = getattr(config.cluster, "tls_server_name", None)
        self._extensions = {"sni_hostname": name} if name else {}
        try:
            self._http = _client(config)
        except (LightkubeConfigError, ssl.SSLError, OSError, ValueError, ImportError) as error:
            raise ConfigError(
                f"the credentials of context {config.context_name!r} cannot be used: {error}"
            ) from None
        self._http.headers["User-Agent"] = agent

    @property
    def awaited(self) -> str:
        """Who has to answer at the moment, in words: a plugin is asked before the server is."""
        auth = self._http.auth
        if isinstance(auth, PluginAuth) and auth.asking:
            return str(auth)
        return f"the API server at {self.server}"

    async def aclose(self) -> None:
        """Hang up."""
        await self._http.aclose()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content: str = "application/json",
    ) -> KubeObject:
        """The answer to one request. Values of ``query`` that are empty are left out."""
        content_sent = None if body is None else _encoded(body)
        with self._plain_errors():
            answer = await self._http.request(
                method,
                path,
                params=_given(query or {}),
                content=content_sent,
                headers={} if body is None else {"Content-Type": content},
                extensions=self._extensions,
            )
        if not answer.is_success:
            raise refusal(answer.status_code, answer.content)
        return self.decoded(answer.content)

    async def stream(
        self, path: str, *, query: Mapping[str, str], silence: float | None
    ) -> AsyncGenerator[bytes, None]:
        """An answer that goes on and on, in pieces; Unreachable after ``silence`` seconds of it."""
        timeout = httpx2.Timeout(REQUEST_TIMEOUT, read=silence)
        with self._plain_errors():
            async with self._http.stream(
                "GET",
                path,
                params=_given(query),
                timeout=timeout,
                extensions=self._extensions,
            ) as answer:
                if not answer.is_success:
                    raise refusal(answer.status_code, await answer.aread())
                async for chunk in answer.aiter_bytes():
                    yield chunk

    async def lines(
        self, path: str, *, query: Mapping[str, str], silence: float | None
    ) -> AsyncGenerator[bytes, None]:
        """The same by lines. A line ends at a line feed only: JSON strings may hold other ends."""
        rest = b""
        async with aclosing(self.stream(path, query=query, silence=silence)) as chunks:
            async for chunk in chunks:
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    yield line

    def decoded(self, content: bytes) -> KubeObject:
        """The object in an answer."""
        try:
            return decode_json(content, KubeObject)
        except DecodeError as error:
            raise Unreachable(
                f"what answers at {self.server} is no Kubernetes API server: {error}"
            ) from None

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Say the libraries' errors in ours."""
        try:
            yield
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unreachable(
                f"the API server at {self.server} does not answer: {_why(error)}"
            ) from None
        except (LightkubeConfigError, OSError) as error:
            # Troubles of connections were above: only a file with a token gets here.
            raise ConfigError(f"no credentials for {self.server}: {error}") from None


def _client(config: SingleConfig) -> httpx2.AsyncClient:
    cluster, user = config.cluster, config.user
    assert user is not None, "where nobody is named there is an empty user"
    _look_at_files(cluster, user)
    proxy = getattr(cluster, "proxy_url", None) or None
    parameters = ConnectionParams(timeout=httpx2.Timeout(REQUEST_TIMEOUT), proxy=proxy)
    settings: dict[str, Any] = parameters.httpx_params(config)
    if isinstance(user, UserEntry):
        settings["headers"] = _impersonating(user)
        # As kubectl has it: a plugin is asked only where there are no other credentials.
        if user.exec and not (user.token or user.token_file):
            settings["auth"] = PluginAuth(user.exec, trust=settings["verify"])
    try:
        return httpx2.AsyncClient(**settings)
    except (ValueError, ImportError) as error:
        if proxy is None:
            raise
        raise ConfigError(
            f"the 'proxy-url' in {config.fname} (context {config.context_name!r}) "
            f"cannot be used: {error}"
        ) from None


def _look_at_files(cluster: Cluster, user: User) -> None:
    """The library that reads them does not say which of them is missing."""
    named = {
        "certificate-authority": cluster.certificate_auth,
        "client-certificate": None if user.client_cert_data else user.client_cert,
        "client-key": None if user.client_key_data else user.client_key,
    }
    for key, path in named.items():
        if path is None:
            continue
        try:
            Path(path).open("rb").close()
        except OSError as error:
            raise ConfigError(
                f"the {key!r} that the kubeconfig names cannot be read: {path}: {error.strerror}"
            ) from None


def _impersonating(user: UserEntry) -> list[tuple[bytes, bytes]]:
    """The headers that make requests another's. Go's client sends UTF-8, too."""
    told = [("Impersonate-User", user.as_user), ("Impersonate-Uid", user.as_uid)]
    told += [("Impersonate-Group", group) for group in user.as_groups or ()]
    for key, values in (user.as_extra or {}).items():
        header = f"Impersonate-Extra-{quote(key, safe=IN_A_HEADER)}"
        told += [(header, value) for value in values]
    return [(name.encode(), text.encode()) for name, text in told if text]


def _encoded(body: object) -> bytes:
    """The request's body; what cannot even be sent is refused as the API server would."""
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise Invalid(422, "Invalid", message=f"it cannot be sent: {error}") from None


def _given(query: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in query.items() if value}


def _why(error: Exception) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "it took too long"
    return str(error) or "it hung up"
