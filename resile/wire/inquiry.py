"""The plain HTTP beside the agents' connections, from the asker's side: look at a job, steer it.

Blocking and without a connection kept, on the standard library alone: a command that asks once
starts fast, and a controller asks from a thread. Nothing is asked over a connection before both
sides have proven that they know the job's token. Every answer is JSON or a log's bytes; every
refusal carries a sentence. Raises :class:`Unreachable` where nothing answers and
:class:`RefusedByPeer` where the master said no.
"""

from __future__ import annotations

import http.client
import os
import ssl
import time
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from resile.decoding import DecodeError, decode_json
from resile.job.addresses import Addresses
from resile.job.view import JobView
from resile.wire.answer_size import LARGEST_ANSWER, TooLong
from resile.wire.digest import PROOF_PATH, Credentials
from resile.wire.endpoint import Endpoint
from resile.wire.errors import UNPROVEN, RefusedByPeer, UnprovenPeer, Unreachable
from resile.wire.messages import Usage
from resile.wire.views import EventView, LogFile, Publication, Refusal

__all__ = ["Inquiry", "is_master"]

ANSWER_TIMEOUT = 10.0
"""A master answers in milliseconds; one on a machine that swaps may take seconds."""

PIECE = 256 * 1024
"""Bytes read at once."""

SHORT = 64 * 1024
"""Bytes that an answer may have which says nothing but who answers."""

T = TypeVar("T")


class Inquiry:
    """Asks one master."""

    def __init__(
        self, endpoint: Endpoint, token: str, *, tls: ssl.SSLContext | None = None
    ) -> None:
        """``tls``: whom to trust, of a master that speaks TLS."""
        self.endpoint = endpoint
        self._token = token
        self._tls = tls

    def view(self) -> JobView:
        """Everything there is to see now."""
        return self._ask("GET", "/v1/job", JobView)

    def publish(self, publication: Publication) -> None:
        """Tell the master what the controller decided. Returns when that is kept."""
        self._ask("PUT", "/v1/job", dict[str, Any], body=publication)

    def tell_usage(self, usage: Mapping[str, Usage]) -> None:
        """Tell the master what each node, by name, uses at the moment."""
        self._ask("PUT", "/v1/usage", dict[str, Any], body=dict(usage))

    def scale(self, sizes: Mapping[str, int]) -> None:
        """Ask for other sizes, by role. Returns when the wish is kept."""
        self._ask("POST", "/v1/scale", dict[str, Any], body=dict(sizes))

    def suspend(self) -> None:
        """Ask for the job to be without nodes for a while. Returns when the wish is kept."""
        self._ask("POST", "/v1/suspend", dict[str, Any])

    def resume(self) -> None:
        """Ask for a suspended job to go on. Returns when the wish is kept."""
        self._ask("POST", "/v1/resume", dict[str, Any])

    def delete(self) -> None:
        """Ask for the job's end. Returns when the wish is kept."""
        self._ask("DELETE", "/v1/job", dict[str, Any])

    def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        """What happened after event ``since``; waits up to ``wait`` seconds for the first."""
        query = {"since": since, "wait": f"{wait:g}"}
        return self._ask("GET", "/v1/events", list[EventView], query=query, patience=wait)

    def addresses(self) -> Addresses:
        """Where the job's nodes are found; refused while nobody has published that."""
        return self._ask("GET", "/v1/addresses", Addresses)

    def log_files(self) -> list[LogFile]:
        """Whose output there is."""
        return self._ask("GET", "/v1/logs", list[LogFile])

    def log(self, node: str, *, offset: int = 0) -> bytes:
        """A piece of a node's output from ``offset`` on; empty at its end."""
        return self._send("GET", "/v1/logs", query={"node": node, "offset": offset})

    def _ask(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        body: object = None,
        query: Mapping[str, object] | None = None,
        patience: float = 0.0,
    ) -> T:
        data = self._send(method, path, body=body, query=query, patience=patience)
        try:
            return decode_json(data, kind)
        except DecodeError as error:
            raise RefusedByPeer(
                f"what listens at {self.endpoint} gave no answer of a Resile master: {error}"
            ) from None

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, object] | None = None,
        patience: float = 0.0,
    ) -> bytes:
        target = f"{path}?{urlencode(query)}" if query else path
        content = None if body is None else msgspec.json.encode(body)
        connection = self._connection(ANSWER_TIMEOUT + patience)
        credentials = Credentials(self._token)
        until = time.monotonic() + ANSWER_TIMEOUT + patience
        try:
            connection.connect()
            connection.auto_open = False  # a second connection might reach somebody else
            self._prove(connection, credentials, until=until)
            headers = credentials.authorization(method, target)
            connection.request(method, target, body=content, headers=headers)
            answer = connection.getresponse()
            data = _read(answer, until=until)
        except TooLong as error:
            raise RefusedByPeer(
                f"what listens at {self.endpoint} gave no answer of a Resile master: {error}"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"no master answers at {self.endpoint}: {_why(error)}") from None
        finally:
            connection.close()
        if answer.status != 200:
            raise RefusedByPeer(_reason(data, answer.status), final=answer.status < 500)
        return data

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        host, port = self.endpoint.host, self.endpoint.port
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=timeout)
        return http.client.HTTPSConnection(host, port, timeout=timeout, context=self._tls)

    def _prove(
        self, connection: http.client.HTTPConnection, credentials: Credentials, *, until: float
    ) -> None:
        """Both sides show that they know the token; raises :class:`UnprovenPeer` if one cannot."""
        connection.request("GET", PROOF_PATH)
        with connection.getresponse() as answer:
            _read(answer, until=until, limit=SHORT)
        if answer.status != 401 or not credentials.challenged(answer.getheader("WWW-Authenticate")):
            raise UnprovenPeer(f"what listens at {self.endpoint} is no Resile master", final=True)
        connection.request("GET", PROOF_PATH, headers=credentials.authorization("GET", PROOF_PATH))
        with connection.getresponse() as answer:
            data = _read(answer, until=until, limit=SHORT)
        if answer.status == 401:
            raise UnprovenPeer(_reason(data, answer.status), final=True)
        if not credentials.proven_by(answer.getheader("Authentication-Info")):
            raise UnprovenPeer(f"what listens at {self.endpoint} {UNPROVEN}", final=True)


def is_master(endpoint: Endpoint, *, timeout: float = 2.0) -> bool:
    """Whether some job's master listens there; asking takes no token."""
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout)
    try:
        connection.request("GET", PROOF_PATH)
        challenge = connection.getresponse().getheader("WWW-Authenticate")
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
    return Credentials(token="").challenged(challenge)


def _read(answer: http.client.HTTPResponse, *, until: float, limit: int | None = None) -> bytes:
    """The whole answer, within a size and a time: whoever sends it may be anything."""
    most = LARGEST_ANSWER if limit is None else limit
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise TooLong("it is compressed, which nobody asked for")
    pieces: list[bytes] = []
    length = 0
    while piece := answer.read1(PIECE):
        pieces.append(piece)
        length += len(piece)
        if length > most:
            raise TooLong(f"it is longer than {most} bytes")
        if time.monotonic() > until:
            raise TimeoutError
    return b"".join(pieces)


def _why(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return "it hung up"


def _reason(data: bytes, status: int) -> str:
    try:
        return decode_json(data, Refusal).error
    except DecodeError:
        return data.decode(errors="replace").strip() or f"HTTP {status}"
