"""A worker's connection to the master for leased data, and how a worker finds the master.

The agent gives its workers the address of the master; the token is found as by other clients. A
lost connection is not repaired: the caller repeats its request over a new one, which is safe (see
``resile/shards/protocol.py``).
"""

from __future__ import annotations

from collections.abc import Mapping

import aiohttp

from resile.launch.state_dir import run_folder
from resile.shards.protocol import (
    MAX_SHARDS_FRAME,
    SHARDS_PATH,
    FromWorker,
    Introduce,
    NotAccepted,
    ShardRequest,
    ToWorker,
    decode_answer,
    encode_shard_frame,
)
from resile.wire.auth import AUTHORITY_VARIABLE, AuthError, client_tls, given_token, read_token
from resile.wire.client import Access, open_socket
from resile.wire.endpoint import Endpoint, is_this_machine, parse_endpoint
from resile.wire.errors import BadFrame, Disconnected

MASTER_VARIABLE = "RESILE_MASTER"
"""The variable with HOST:PORT of the job's master, for its workers."""


class ShardConnection:
    """An introduced connection. Requests are answered in the order in which they are sent."""

    def __init__(
        self, session: aiohttp.ClientSession, socket: aiohttp.ClientWebSocketResponse[bool]
    ) -> None:
        self._session = session
        self._socket = socket
        self._last = 0

    async def ask(self, body: FromWorker) -> ToWorker:
        """Return the master's answer; raises :class:`Disconnected` when the connection is lost."""
        number = await self.send(body)
        return await self.receive(number)

    async def send(self, body: FromWorker) -> int:
        """Send a request; return its number for :meth:`receive`."""
        self._last += 1
        try:
            await self._socket.send_bytes(encode_shard_frame(ShardRequest(self._last, body)))
        except (ConnectionError, aiohttp.ClientError, RuntimeError) as error:
            raise Disconnected(str(error)) from None
        return self._last

    async def receive(self, number: int) -> ToWorker:
        """Return the answer to a request, after those to all earlier ones."""
        message = await self._socket.receive()
        if message.type is not aiohttp.WSMsgType.BINARY:
            raise Disconnected("the master closed the connection")
        answer = decode_answer(message.data)
        if answer.id == 0 and isinstance(answer.body, NotAccepted):
            raise BadFrame(f"the master rejected the request: {answer.body.reason}")
        if answer.id != number:
            raise BadFrame(f"request {number} got the answer to request {answer.id}")
        return answer.body

    async def close(self) -> None:
        """Close the connection; also when it is lost already."""
        try:
            await self._socket.close()
        finally:
            await self._session.close()


async def connect_for_shards(access: Access, worker: Introduce) -> ShardConnection:
    """Open a connection and introduce ``worker``."""
    socket = await open_socket(access, SHARDS_PATH, largest=MAX_SHARDS_FRAME)
    connection = ShardConnection(*socket)
    try:
        await connection.send(worker)
    except BaseException:
        await connection.close()
        raise
    return connection


def worker_access(environment: Mapping[str, str]) -> Access | None:
    """Return the access of a worker to its job's master; None outside of a job with one."""
    said = environment.get(MASTER_VARIABLE)
    if not said:
        return None
    endpoint = parse_endpoint(said)
    tls = client_tls(environment.get(AUTHORITY_VARIABLE))
    return Access(endpoint, _token(endpoint), tls)


def _token(endpoint: Endpoint) -> str:
    if token := given_token(None):
        return token
    if is_this_machine(endpoint.host):
        return read_token(run_folder(endpoint) / "token")
    raise AuthError(
        f"the master at {endpoint} needs the job's token: set $RESILE_TOKEN or $RESILE_TOKEN_FILE"
    )
