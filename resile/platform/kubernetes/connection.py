"""The HTTP underneath: a request in, a decoded answer or one of our errors out.

lightkube finds out how to authenticate and whom to trust, and gives its HTTP client; nothing else
of it is used, and no error of either library leaves this module.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from json import JSONDecodeError

import httpx2
import msgspec
from lightkube.config import client_adapter
from lightkube.config.kubeconfig import SingleConfig
from lightkube.core.exceptions import ConfigError as LightkubeConfigError

from resile.platform.kubernetes.errors import ConfigError, Unreachable, refusal
from resile.platform.kubernetes.kinds import KubeObject

__all__ = ["REQUEST_TIMEOUT", "Connection"]

REQUEST_TIMEOUT = 10.0
"""An API server under load answers within seconds; one that takes longer is as good as away."""


class Connection:
    """The way to one API server, as one user. Nothing is sent before the first request."""

    def __init__(self, config: SingleConfig, *, agent: str) -> None:
        self.server: str = config.cluster.server
        parameters = client_adapter.ConnectionParams(timeout=httpx2.Timeout(REQUEST_TIMEOUT))
        try:
            self._http = client_adapter.AsyncClient(config, parameters)
        except (LightkubeConfigError, ssl.SSLError, OSError, ValueError) as error:
            raise ConfigError(
                f"the credentials of context {config.context_name!r} cannot be used: {error}"
            ) from None
        self._http.headers["User-Agent"] = agent

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
        with self._plain_errors():
            answer = await self._http.request(
                method,
                path,
                params=_given(query or {}),
                content=None if body is None else msgspec.json.encode(body),
                headers={} if body is None else {"Content-Type": content},
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
                "GET", path, params=_given(query), timeout=timeout
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
            return msgspec.json.decode(content, type=KubeObject)
        except msgspec.DecodeError as error:
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
        except LightkubeConfigError as error:
            raise ConfigError(f"no credentials for {self.server}: {error}") from None
        except (OSError, KeyError, JSONDecodeError) as error:
            # Troubles of connections were above: only a credential plugin gets here.
            raise ConfigError(
                f"no credentials for {self.server}: the plugin that the kubeconfig names failed "
                f"({type(error).__name__}: {error})"
            ) from None


def _given(query: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in query.items() if value}


def _why(error: Exception) -> str:
    if isinstance(error, httpx2.TimeoutException):
        return "it took too long"
    return str(error) or "it hung up"
