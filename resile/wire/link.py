"""A node's connection to the master, re-established over the master's death.

Workers do not notice a master that is away. The link retries; on each new connection it sends what
the node holds now, so a message lost with the old connection need not be repeated. A node that was
evicted waits here until its workers are stopped, then rejoins as a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable

from resile.system.clock import PULSE, RunningClock
from resile.wire.client import Access, AgentConnection, connect, greet
from resile.wire.errors import (
    AddressInUse,
    BadFrame,
    Disconnected,
    NoAnswer,
    RefusedByPeer,
    UnprovenPeer,
    Unreachable,
    WireError,
)
from resile.wire.messages import (
    Fenced,
    FromAgent,
    FromMaster,
    Hello,
    JobDone,
    Refused,
    Welcome,
)

log = logging.getLogger("resile.link")

FIRST_RETRY, LAST_RETRY = 0.02, 0.5
"""Seconds: a restarted master is found soon, and a thousand agents do not overload it."""

RENEWALS_PER_LEASE = 5
"""Four may be lost before the lease expires."""

LOG_AFTER = 3.0
"""Seconds for which the master has to be unreachable before that is logged."""

ADDRESS_TAKEN_TIMEOUT = 2.0
"""Seconds for which another program may have the master's address before a new node fails: a master
that is just starting or exiting takes less."""

NO_ANSWER_TIMEOUT = 10.0
"""Seconds without an answer, and at least twice the lease, after which a connection is closed: the
master's machine may be lost without a closed connection, and another master may run."""


class MasterUnreachable(WireError):
    """The master stayed unreachable for longer than the user allows."""


class AddressTaken:
    """Tracks since when another program has the master's address."""

    def __init__(self) -> None:
        self._first: float | None = None
        self.logged = False

    def since(self, now: float) -> float:
        """Note that it has; return for how many seconds."""
        if self._first is None:
            self._first = now
        return now - self._first

    def clear(self) -> None:
        """Note that it has not."""
        self._first = None


class Link:
    """Passes the master's messages to ``deliver``; sends with :meth:`send`."""

    def __init__(
        self,
        access: Access,
        *,
        hello: Callable[[], Hello],
        renewal: Callable[[], FromAgent | None],
        deliver: Callable[[FromMaster], None],
        revive: Callable[[], Awaitable[str]] | None,
        give_up_after: Callable[[], float],
    ) -> None:
        """``hello`` returns what the node holds; ``revive`` may start a master where there is none
        and returns why it could not; ``give_up_after`` returns for how many seconds to retry."""
        self._access = access
        self._hello = hello
        self._renewal = renewal
        self._deliver = deliver
        self._revive = revive
        self._give_up_after = give_up_after
        self._connection: AgentConnection | None = None
        self._clock = RunningClock()
        self.answers = 0
        """Increases with every sign of life of the master."""

        self._welcomed = False
        """True if the master was ever reached: then another program at its port is not fatal."""

        self._interval = 0.0
        """Seconds between two heartbeats."""
        self._outbox: asyncio.Queue[FromAgent] = asyncio.Queue()
        self._hanging_up: asyncio.Task[None] | None = None
        self._may_join = asyncio.Event()
        self._may_join.set()

    @property
    def connected(self) -> bool:
        """Return whether there is a connection on which a master has answered."""
        return self._connection is not None

    def send(self, message: FromAgent) -> None:
        """Send a message soon, or never: the next Hello contains the same."""
        self._outbox.put_nowait(message)

    def hang_up(self) -> None:
        """Close the connection: the next one begins with what the node holds now."""
        if self._connection is not None:
            self._hanging_up = asyncio.create_task(self._connection.close())

    def rejoin(self) -> None:
        """Rejoin as a new node: the agent has stopped its workers."""
        self._may_join.set()

    async def run(self) -> None:
        """Stay connected until the job is over. Raises RefusedByPeer or MasterUnreachable."""
        while True:
            await self._may_join.wait()
            connection, answer = await self._reach()
            self._welcomed = True
            async with connection:
                self._deliver(answer)
                if isinstance(answer, JobDone):
                    return
                if isinstance(answer, Fenced):
                    self._may_join.clear()
                elif await self._converse(connection, answer):
                    return

    async def flush(self) -> None:
        """Wait a moment until the last messages are sent."""
        deadline = time.monotonic() + 1.0
        while self._connection and not self._outbox.empty() and time.monotonic() < deadline:
            await asyncio.sleep(0.005)

    async def _reach(self) -> tuple[AgentConnection, Welcome | Fenced | JobDone]:
        """Connect and greet, with retries until the timeout."""
        since, retry, logged = time.monotonic(), FIRST_RETRY, False
        taken = AddressTaken()
        while True:
            try:
                return await self._try()
            except Unreachable as error:
                why = await self._revived(error, taken) or str(error)
            except (Disconnected, BadFrame, asyncio.TimeoutError) as error:
                why = str(error) or "no answer"
            except RefusedByPeer as refusal:
                if refusal.final and not (self._welcomed and isinstance(refusal, UnprovenPeer)):
                    raise
                why = str(refusal)
            away = time.monotonic() - since
            if away > self._give_up_after():
                raise MasterUnreachable(f"{why} (tried for {away:.0f} s)")
            if away > LOG_AFTER and not logged and not taken.logged:
                log.warning("the master is unreachable (%s); retrying", why)
                logged = True
            await asyncio.sleep(retry * random.uniform(0.5, 1.0))
            retry = min(retry * 2, LAST_RETRY)

    async def _revived(self, error: Unreachable, taken: AddressTaken) -> str:
        """Start a master where none answers; return why there is none.

        If another program keeps the address, that is reported at once, without waiting for the
        timeout. A node that was in the job already continues to retry.
        """
        if self._revive is None:
            return ""
        try:
            why = await self._revive()
        except AddressInUse as reason:
            for_how_long = taken.since(time.monotonic())
            if isinstance(error, NoAnswer):
                if not taken.logged:
                    log.warning("%s, and it does not answer; retrying", reason)
                taken.logged = True
            elif for_how_long > ADDRESS_TAKEN_TIMEOUT and not self._welcomed:
                raise MasterUnreachable(f"{reason} (a Resile master would have answered)") from None
            return str(reason)
        taken.clear()
        return why

    async def _try(self) -> tuple[AgentConnection, Welcome | Fenced | JobDone]:
        connection = await connect(self._access)
        try:
            # The Hello contains what was not sent before; later messages come after it.
            while not self._outbox.empty():
                self._outbox.get_nowait()
            return connection, await greet(connection, self._hello())
        except BaseException:
            await connection.close()
            raise

    async def _converse(self, connection: AgentConnection, welcome: Welcome) -> bool:
        """Exchange messages until the connection is lost; True when the job is over."""
        self._connection, self._interval = connection, welcome.lease / RENEWALS_PER_LEASE
        speaking = asyncio.create_task(self._speak_or_hang_up(connection))
        watching = asyncio.create_task(self._watch(connection, welcome))
        try:
            while True:
                message = await connection.receive()
                if isinstance(message, Refused):
                    log.debug("refused: %s", message.reason)
                    continue
                if isinstance(message, Welcome):
                    self._hurry(message.lease)
                self._deliver(message)
                if isinstance(message, JobDone):
                    return True
                if isinstance(message, Fenced):
                    self._may_join.clear()
                    return False
        except (Disconnected, BadFrame) as error:
            log.debug("lost the master: %s", error)
            return False
        finally:
            self._connection = None
            for task in (speaking, watching):
                task.cancel()
            await asyncio.gather(speaking, watching, return_exceptions=True)

    async def _watch(self, connection: AgentConnection, welcome: Welcome) -> None:
        """Log when the master does not answer; close the connection when that takes too long."""
        answers, logged, heard_at = -1, False, self._clock.now()
        while True:
            now = self._clock.now()
            if connection.answers != answers:
                answers, heard_at = connection.answers, now
                self.answers += 1
                if logged:
                    log.warning("the master is responding again")
                logged = False
            silent = now - heard_at
            if silent > max(LOG_AFTER, 2 * self._interval) and not logged:
                logged = True
                log.warning("%s", self._complaint(silent, welcome.master_pid))
            if silent > max(NO_ANSWER_TIMEOUT, 2 * welcome.lease):
                await connection.close()
                return
            await asyncio.sleep(PULSE)

    def _complaint(self, silent: float, pid: int) -> str:
        again = "it is restarted from here" if self._revive else "restart it"
        cure = f"kill -CONT {pid} if it was stopped, kill -KILL {pid} if it hangs ({again})"
        return (
            f"the master at {self._access.endpoint} has not responded for {silent:.0f} s; workers "
            f"keep training, but failed ones are not replaced until it responds: {cure}"
        )

    def _hurry(self, lease: float) -> None:
        """The lease of the job has changed: send a heartbeat at once."""
        self._interval = lease / RENEWALS_PER_LEASE
        if renewal := self._renewal():
            self.send(renewal)

    async def _speak_or_hang_up(self, connection: AgentConnection) -> None:
        """Send messages; close a connection on which that fails: without renewals the node would be
        evicted. The next one begins with a Hello."""
        try:
            await self._speak(connection)
        except Exception as error:
            log.error("cannot send to the master: %r; reconnecting", error)
            await connection.close()

    async def _speak(self, connection: AgentConnection) -> None:
        """Send queued messages, and heartbeats in between however many are queued."""
        renew_at = time.monotonic() + self._interval
        with contextlib.suppress(Disconnected):
            # A cancellation alone would not do: before Python 3.12 wait_for may swallow one.
            while self._connection is connection:
                renew_at = min(renew_at, time.monotonic() + self._interval)
                left = renew_at - time.monotonic()
                try:
                    message = await asyncio.wait_for(self._outbox.get(), max(0.0, left))
                except asyncio.TimeoutError:
                    renew_at = time.monotonic() + self._interval
                    await connection.ping()
                    renewal = self._renewal()
                    if renewal is None:
                        continue
                    message = renewal
                await connection.send(message)
