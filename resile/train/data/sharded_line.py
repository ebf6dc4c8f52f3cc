"""A process's line to the master, for shards: a thread that asks, and asks again.

The thread holds the connection, so that it is noticed at once when this process is gone, and so
that the next shards can be asked for while the last ones are trained. When the master is away it
connects again, says so once, and asks the same again: a master that comes back gives the same
answer. A forked child has no such thread and must make a line of its own.

ShardError
├── MasterGone     the master did not come back within the patience
├── LeaseLost      the lease, the epoch or the round is over; what was trained on it does not count
└── ShardsRefused  the master said no, with its reason: ranks that do not agree, or a wrong token
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
"""Seconds a master may be away: it is started again within a second where somebody keeps it."""

FIRST_RETRY, LAST_RETRY = 0.05, 1.0
"""A returning master should be found at once, and a dark network not be flooded."""

LONG_WAIT = 30.0
"""Whoever waits so long for an answer should know for what."""

FAREWELL = 2.0
"""Seconds the master may take to say goodbye."""


class ShardError(DataError):
    """Base of all that can go wrong with leased shards."""


class MasterGone(ShardError):
    """The master did not come back within the patience."""


class LeaseLost(ShardError):
    """The lease, the epoch or the round is over: somebody else trains on it now."""


class ShardsRefused(ShardError):
    """The master said no, and would again."""


class ShardLine:
    """One process's line to the master. Thread-safe; requests are answered in order."""

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
        """The answer to come; raises :class:`MasterGone` or :class:`ShardsRefused` when asked."""
        return asyncio.run_coroutine_threadsafe(self._ask(body), self._loop)

    def close(self) -> None:
        """End the connection; what was not answered is not."""
        if self._loop.is_running():
            closing = asyncio.run_coroutine_threadsafe(self._hang_up(), self._loop)
            try:
                closing.result(FAREWELL)
            except (concurrent.futures.TimeoutError, WireError, OSError):
                log.debug("the master did not say goodbye")
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
        """Ask until it is answered, over as many connections as it takes."""
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
                    raise MasterGone(f"{error}; waited {self._patience:g} s for it") from None
                if not away:
                    away = True
                    log.warning("the master is away, waiting for it: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, LAST_RETRY)
                continue
            if away:
                log.warning("the master is back")
            return answer

    async def _hang_up(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def begin(line: ShardLine, request: Begin) -> int:
    """Begin a dataset; the epoch it is in."""
    answer = line.ask(request).result()
    if isinstance(answer, Begun):
        return answer.epoch
    raise refusal_of(answer)


def refusal_of(answer: ToWorker) -> ShardError:
    """The error behind an answer that is not what was asked for."""
    if isinstance(answer, NotAccepted):
        return (LeaseLost if answer.stale else ShardsRefused)(answer.reason)
    return ShardsRefused(f"an unexpected answer of the master: {answer}")
