"""A process's connection to the master for shards: a thread that sends requests and retries them.

The thread holds the connection, so that the master notices at once when this process is gone, and
so that the next shards can be requested while the last ones are trained. When the master is
unreachable it reconnects, logs that once, and repeats the request: a restarted master gives the
same answer. A forked child has no such thread and must open its own connection.

ShardError
├── MasterGone     the master did not come back within the timeout
├── LeaseLost      the lease, the epoch or the round is over; training on it does not count
└── ShardsRefused  the master refused, with a reason: ranks that disagree, or a wrong token
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time

from resile.train.data.errors import DataError
from resile.wire.client import Access
from resile.wire.errors import BadFrame, RefusedByPeer, WireError
from resile.wire.shards import Begin, Begun, FromWorker, Introduce, NotAccepted, NotYet, ToWorker
from resile.wire.shards_client import ShardConnection, connect_for_shards

__all__ = [
    "LeaseLost",
    "MasterGone",
    "ShardError",
    "ShardLine",
    "ShardsRefused",
    "begin",
    "refusal_of",
]

log = logging.getLogger("resile.data")

PATIENCE = 300.0
"""Timeout in seconds for an unreachable master: where it is supervised, it restarts within one."""

FIRST_RETRY, LAST_RETRY = 0.05, 1.0
"""Seconds between retries: find a restarted master quickly, without flooding the network."""

LONG_WAIT = 30.0
"""Seconds of waiting for an answer after which the reason is logged."""

FAREWELL = 2.0
"""Seconds to wait for the connection to close."""


class ShardError(DataError):
    """Base class of all errors of leased shards."""


class MasterGone(ShardError):
    """The master did not come back within the timeout."""


class LeaseLost(ShardError):
    """The lease, the epoch or the round is over: the shard is leased to another."""


class ShardsRefused(ShardError):
    """The master refused the request; a retry would not help."""


class ShardLine:
    """One process's connection to the master. Thread-safe; requests are answered in order."""

    def __init__(self, access: Access, worker: Introduce, *, patience: float = PATIENCE) -> None:
        self._access = access
        self._worker = worker
        self._patience = patience
        self._connection: ShardConnection | None = None
        self._loop = asyncio.new_event_loop()
        self._turn = asyncio.Lock()
        self._thread = threading.Thread(target=self._run, name="resile-shards", daemon=True)
        self._thread.start()

    def ask(self, body: FromWorker) -> concurrent.futures.Future[ToWorker]:
        """Send a request; the result raises :class:`MasterGone` or :class:`ShardsRefused`."""
        return asyncio.run_coroutine_threadsafe(self._ask(body), self._loop)

    def close(self) -> None:
        """Close the connection; pending requests stay unanswered."""
        if self._loop.is_running():
            closing = asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop)
            try:
                closing.result(FAREWELL)
            except (concurrent.futures.TimeoutError, WireError, OSError):
                log.debug("the connection to the master was not closed cleanly")
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(FAREWELL)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _ask(self, body: FromWorker) -> ToWorker:
        told = time.monotonic() + LONG_WAIT
        while True:
            async with self._turn:
                answer = await self._asked(body)
            if not isinstance(answer, NotYet):
                return answer
            if time.monotonic() > told:
                told += LONG_WAIT
                log.warning("waiting for data: %s", answer.reason)
            await asyncio.sleep(answer.after)

    async def _asked(self, body: FromWorker) -> ToWorker:
        """Send a request until it is answered, reconnecting as often as needed."""
        deadline, pause = time.monotonic() + self._patience, FIRST_RETRY
        away = False
        while True:
            try:
                if self._connection is None:
                    self._connection = await connect_for_shards(self._access, self._worker)
                answer = await self._connection.ask(body)
            except WireError as error:
                await self._hang_up()
                if isinstance(error, BadFrame) or (
                    isinstance(error, RefusedByPeer) and error.final
                ):
                    raise ShardsRefused(str(error)) from None
                if time.monotonic() > deadline:
                    raise MasterGone(f"{error}; gave up after {self._patience:g} s") from None
                if not away:
                    away = True
                    log.warning("the master is unreachable, retrying: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LAST_RETRY)
                continue
            if away:
                log.warning("reconnected to the master")
            return answer

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def begin(line: ShardLine, request: Begin) -> int:
    """Begin a dataset; returns its current epoch."""
    answer = line.ask(request).result()
    if isinstance(answer, Begun):
        return answer.epoch
    raise refusal_of(answer)


def refusal_of(answer: ToWorker) -> ShardError:
    """Return the error for an answer other than the expected one."""
    if isinstance(answer, NotAccepted):
        return (LeaseLost if answer.stale else ShardsRefused)(answer.reason)
    return ShardsRefused(f"unexpected answer from the master: {answer}")
