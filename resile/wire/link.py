"""A node's line to the master, kept up over the master's death.

Workers do not notice a master that is away. The link tries again and again; on each new connection
it says what the node holds now, so a message lost with the old connection need not be repeated.
A node that was put out waits here until its workers are stopped, then joins as a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable

from resile.wire.client import Access, AgentConnection, connect, greet
from resile.wire.clock import PULSE, RunningClock
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
"""A restarted master is found within half a second; a thousand agents do not trample it."""

RENEWALS_PER_LEASE = 5
"""Four may be lost before the lease is."""

PATIENCE_BEFORE_NEWS = 3.0
"""Say that the master is away only when it has been for so long."""


STRANGER_PATIENCE = 2.0
"""How long another program may have the master's address before a newcomer is told and gives up: a
master that is just starting or ending is through with it sooner."""

DEAF = 10.0
"""A connection on which a master has not answered for so long, and for twice the lease, is given
up: the master's machine may be gone without a word, and another master may be there."""


class MasterGone(WireError):
    """The master stayed unreachable for longer than the user allows."""


class Taken:
    """Since when another program has been seen at the master's address."""

    def __init__(self) -> None:
        self._first: float | None = None
        self.told = False

    def since(self, now: float) -> float:
        """Note that it is so; returns for how long it has been, in seconds."""
        if self._first is None:
            self._first = now
        return now - self._first

    def clear(self) -> None:
        """It is so no longer."""
        self._first = None


class Link:
    """Delivers the master's words to ``deliver``; speaks with :meth:`send`."""

    def __init__(
        self,
        access: Access,
        *,
        hello: Callable[[], Hello],
        renewal: Callable[[], FromAgent | None],
        deliver: Callable[[FromMaster], None],
        revive: Callable[[], Awaitable[str]] | None,
        patience: Callable[[], float],
    ) -> None:
        """``hello`` says what the node holds; ``revive`` may start a master where there is none
        and says why it could not;
        ``patience`` is how long to try."""
        self._access = access
        self._hello = hello
        self._renewal = renewal
        self._deliver = deliver
        self._revive = revive
        self._patience = patience
        self._connection: AgentConnection | None = None
        self._clock = RunningClock()
        self.answers = 0
        """Grows whenever the master is heard."""

        self._welcomed = False
        """Whether the master was ever reached: a stranger at its port then ends nothing."""

        self._interval = 0.0
        """Between two signs of life."""
        self._outbox: asyncio.Queue[FromAgent] = asyncio.Queue()
        self._hanging_up: asyncio.Task[None] | None = None
        self._may_join = asyncio.Event()
        self._may_join.set()

    @property
    def connected(self) -> bool:
        """Whether there is a connection that a master has answered on."""
        return self._connection is not None

    def send(self, message: FromAgent) -> None:
        """Say something soon, or never: the next Hello tells the same."""
        self._outbox.put_nowait(message)

    def hang_up(self) -> None:
        """End the connection: the next one begins with what the node holds now."""
        if self._connection is not None:
            self._hanging_up = asyncio.create_task(self._connection.close())

    def rejoin(self) -> None:
        """The agent has stopped what it held: join as a new node."""
        self._may_join.set()

    async def run(self) -> None:
        """Keep the line up until the job is over. Raises RefusedByPeer or MasterGone."""
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
        """Wait a moment for the last words to be out."""
        deadline = time.monotonic() + 1.0
        while self._connection and not self._outbox.empty() and time.monotonic() < deadline:
            await asyncio.sleep(0.005)

    async def _reach(self) -> tuple[AgentConnection, Welcome | Fenced | JobDone]:
        """A greeted connection, however long it takes within the agent's patience."""
        since, retry, told = time.monotonic(), FIRST_RETRY, False
        taken = Taken()
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
            if away > self._patience():
                raise MasterGone(f"{why} (tried for {away:.0f} s)")
            if away > PATIENCE_BEFORE_NEWS and not told and not taken.told:
                log.warning("the master is away (%s); trying again", why)
                told = True
            await asyncio.sleep(retry * random.uniform(0.5, 1.0))
            retry = min(retry * 2, LAST_RETRY)

    async def _revived(self, error: Unreachable, taken: Taken) -> str:
        """Have a master started where nobody answers; returns why there is none.

        An address that another program keeps is told at once: nobody should wait for the end of
        their patience to hear it. Who was in the job already goes on trying.
        """
        if self._revive is None:
            return ""
        try:
            why = await self._revive()
        except AddressInUse as reason:
            for_how_long = taken.since(time.monotonic())
            if isinstance(error, NoAnswer):
                if not taken.told:
                    log.warning("%s, and it does not answer; trying again", reason)
                taken.told = True
            elif for_how_long > STRANGER_PATIENCE and not self._welcomed:
                raise MasterGone(f"{reason} (a Resile master would have answered)") from None
            return str(reason)
        taken.clear()
        return why

    async def _try(self) -> tuple[AgentConnection, Welcome | Fenced | JobDone]:
        connection = await connect(self._access)
        try:
            # What was not sent before is in the Hello; what is sent from here on comes after it.
            while not self._outbox.empty():
                self._outbox.get_nowait()
            return connection, await greet(connection, self._hello())
        except BaseException:
            await connection.close()
            raise

    async def _converse(self, connection: AgentConnection, welcome: Welcome) -> bool:
        """Talk until the connection is lost; True when the job is over."""
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
        """Say when the master does not answer, and hang up when it has not for too long."""
        answers, told, heard_at = -1, False, self._clock.now()
        while True:
            now = self._clock.now()
            if connection.answers != answers:
                answers, heard_at = connection.answers, now
                self.answers += 1
                if told:
                    log.warning("the master answers again")
                told = False
            silent = now - heard_at
            if silent > max(PATIENCE_BEFORE_NEWS, 2 * self._interval) and not told:
                told = True
                log.warning("%s", self._complaint(silent, welcome.master_pid))
            if silent > max(DEAF, 2 * welcome.lease):
                await connection.close()
                return
            await asyncio.sleep(PULSE)

    def _complaint(self, silent: float, pid: int) -> str:
        again = "it is started again from here" if self._revive else "start it again"
        cure = f"kill -CONT {pid} if it was stopped, kill -KILL {pid} if it hangs ({again})"
        return (
            f"the master at {self._access.endpoint} has not answered for {silent:.0f} s; workers "
            f"train on, but none that fails is replaced until it answers: {cure}"
        )

    def _hurry(self, lease: float) -> None:
        """The job has another lease from now on: a sign of life is due at once."""
        self._interval = lease / RENEWALS_PER_LEASE
        if renewal := self._renewal():
            self.send(renewal)

    async def _speak_or_hang_up(self, connection: AgentConnection) -> None:
        """A line on which nothing can be said any more is no line: without renewals the node would
        be evicted. The next one begins with a Hello."""
        try:
            await self._speak(connection)
        except Exception as error:
            log.error("cannot speak to the master: %r; connecting again", error)
            await connection.close()

    async def _speak(self, connection: AgentConnection) -> None:
        """Send what is to be said, and a sign of life in between, however much there is to say."""
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
