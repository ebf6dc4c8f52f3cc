"""The running master: passes messages and time to the job's groups and carries out their decisions.

One task takes everything that happened since the last turn, lets each group decide, writes the
records, and only then sends messages. Many events of one moment cost one commit. If the store fails
no message is sent: this master exits, and the next one continues from the records.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from resile.job.addresses import Addresses
from resile.master.effects import Address, EffectBatch
from resile.master.groups import Groups
from resile.master.membership import Membership
from resile.master.progress import GroupProgress
from resile.master.records import EventRecord
from resile.master.store.base import Store
from resile.shards.leases import LeaseManager
from resile.system.clock import PULSE, RunningClock
from resile.wire.directive import Directive
from resile.wire.messages import (
    Fence,
    Fenced,
    FromAgent,
    HandedOver,
    HandoverPublished,
    HandoverTold,
    Hello,
    Leave,
    Leaving,
    Ready,
    Refused,
    Renew,
    Warmed,
    Welcome,
    WorkersFailed,
    WorkersReached,
    WorkersSucceeded,
)
from resile.wire.server import Peer

log = logging.getLogger("resile.master")

T = TypeVar("T")

Action = Callable[[float], None]
"""A function that passes something that happened to the groups, given the time."""


class MasterService:
    """Implements :class:`resile.wire.server.PeerHandler` on top of a job's :class:`Groups`."""

    def __init__(
        self,
        groups: Groups,
        store: Store,
        *,
        shards: LeaseManager | None = None,
    ) -> None:
        self.groups = groups
        self.shards = shards or LeaseManager(groups.effects)
        self.addresses: Addresses | None = None
        """Where nodes are found, as the controller said last. Not stored: it tells a master that
        was started again everything anew."""
        self.peers: dict[Address, Peer] = {}
        self.emptied_at: float | None = time.monotonic()
        """Since when no group that is not over has nodes; None while one has."""
        self.ever_joined = any(len(group.nodes) for group in groups)
        self.found_over = groups.over
        """Whether the job was over when this master started, which its agents may not know."""
        self._store = store
        self._clock = RunningClock()
        """Stands still while this process is paused: no lease expires in that time."""
        self._nodes: dict[Peer, Address] = {}
        self._inbox: list[Action] = []
        self._wake = asyncio.Event()
        self._logged = groups.effects.last_seq
        self.reported: defaultdict[str, GroupProgress] = defaultdict(GroupProgress)
        """By group."""
        self._kept = 0
        """The last event that is in the store."""
        self._news = asyncio.Event()
        self.leaving = False
        """Whether this master is about to exit."""
        self._answers: list[tuple[asyncio.Future[Any], Any]] = []

    @property
    def membership(self) -> Membership:
        """The job's main group."""
        return self.groups.main

    # --- PeerHandler ------------------------------------------------------------------------

    def greeted(self, peer: Peer, hello: Hello) -> None:
        """A connection's first message."""
        self.post(lambda now: self._greet(peer, hello, now))

    def received(self, peer: Peer, message: FromAgent) -> None:
        """Any later message."""
        self.post(lambda now: self._receive(peer, message, now))

    def closed(self, peer: Peer) -> None:
        """A connection is gone."""
        self.post(lambda now: self._close(peer, now))

    def post(self, action: Action) -> None:
        """Run something in the one task, soon."""
        self._inbox.append(action)
        self._wake.set()

    def promise(self, action: Callable[[float], T]) -> asyncio.Future[T]:
        """Run a function in the one task; its result is set once its records are written."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def happen(now: float) -> None:
            try:
                self._answers.append((answer, action(now)))
            except Exception as error:
                if not answer.done():
                    answer.set_exception(error)

        self.post(happen)
        return answer

    async def carry_out(self, action: Callable[[float], T]) -> T:
        """As :meth:`promise`, and wait for it."""
        return await self.promise(action)

    async def events_after(self, seq: int, *, timeout: float) -> list[EventRecord]:
        """Return the stored events after ``seq``; wait for the first up to ``timeout`` seconds.

        A client that knows later events than there are has them from a master whose state is lost:
        it gets all events.
        """
        deadline = time.monotonic() + timeout
        while True:
            effects = self.groups.effects
            known = seq if seq <= effects.last_seq else 0
            events = [e for e in effects.since(known) if e.seq <= self._kept]
            left = deadline - time.monotonic()
            if events or left <= 0 or self.leaving:
                return events
            await self.next_event(timeout=left)

    async def next_event(self, *, timeout: float) -> None:
        """Wait until another event is stored or this master leaves, at most ``timeout`` seconds."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._news.wait(), timeout)

    async def follow(self, directive: Directive) -> None:
        """Do as the job's controller wants. Returns once that is stored."""

        def happen(now: float) -> None:
            self.groups.follow(directive, now=now)
            self.addresses = directive.addresses

        await self.carry_out(happen)

    def leave(self) -> None:
        """This master exits: end all waiting for events."""
        self.leaving = True
        self._news.set()

    # --- the one task -----------------------------------------------------------------------

    async def run(self) -> None:
        """Decide and act until cancelled; raises what the store raises."""
        await self._act(self.groups.pending_effects())
        while not self.leaving:  # before Python 3.12 wait_for may swallow a cancellation
            await self._wait_for_event()
            now = self._clock.now()
            self.groups.effects.wall_offset = time.time() - now
            inbox, self._inbox = self._inbox, []
            for action in inbox:
                action(now)
            self.groups.tick(now)
            self.shards.tick(now)
            await self._act(self.groups.pending_effects())

    async def _wait_for_event(self) -> None:
        """Wait for an event, the next deadline or the next reading of the clock."""
        now = self._clock.now()
        deadlines = (self.groups.next_deadline(), self.shards.next_deadline())
        next_one = min((one for one in deadlines if one is not None), default=now + PULSE)
        timeout = min(PULSE, max(0.0, next_one - now))
        try:
            await asyncio.wait_for(self._wake.wait(), timeout)
        except asyncio.TimeoutError:
            return
        self._wake.clear()

    async def _act(self, pending_effects: EffectBatch) -> None:
        """Write records, then send messages."""
        self._log_events()
        if pending_effects.records:
            await self._store.commit(
                {
                    key: None if record is None else msgspec.msgpack.encode(record)
                    for key, record in pending_effects.records.items()
                }
            )
        self._publish()
        for address, body in pending_effects.sends:
            if peer := self.peers.get(address):
                peer.send(body)
                if isinstance(body, Fenced):
                    self._forget(peer)
                elif isinstance(body, Welcome) and (group := self.groups.get(address.group)):
                    # Not before: writing the records may take longer than a lease.
                    group.reports.heard(Fence(address.node, 0), now=self._clock.now())
        self._check_empty()

    def _log_events(self) -> None:
        fresh = self.groups.effects.since(self._logged)
        for event in fresh:
            log.info("%s: %s", event.kind, event.text)
        self._logged = self.groups.effects.last_seq

    def _publish(self) -> None:
        """Publish what is stored: events to readers, results to callers of :meth:`promise`."""
        answers, self._answers = self._answers, []
        for answer, result in answers:
            if not answer.done():
                answer.set_result(result)
        last = self.groups.effects.last_seq
        if last > self._kept:
            self._kept = last
            news, self._news = self._news, asyncio.Event()
            news.set()

    def _check_empty(self) -> None:
        if self.groups.occupied:
            self.ever_joined, self.emptied_at = True, None
        elif self.emptied_at is None:
            self.emptied_at = time.monotonic()

    # --- messages of agents -----------------------------------------------------------------

    def _greet(self, peer: Peer, hello: Hello, now: float) -> None:
        answer = self.groups.hello(hello, now=now)
        if not isinstance(answer, int):
            peer.send(answer)
            peer.close()
            return
        address = Address(hello.group, answer)
        if (old := self.peers.get(address)) and old is not peer:
            self._forget(old)
        self.peers[address] = peer
        self._nodes[peer] = address

    def _receive(self, peer: Peer, message: FromAgent, now: float) -> None:
        address = self._nodes.get(peer)
        if address is None:
            peer.send(Fenced(reason="this connection belongs to no node of the job"))
            peer.close()
            return
        if isinstance(message, Hello):
            peer.send(Refused(reason="only one Hello is accepted per connection"))
        elif message.fence.node != address.node:
            reason = (
                f"this connection belongs to node {address.node}, not node {message.fence.node}"
            )
            peer.send(Refused(reason=reason))
        elif refusal := self._tell(address.group, message, message.fence, now):
            peer.send(Refused(reason=refusal))

    def _tell(self, name: str, message: FromAgent, fence: Fence, now: float) -> str | None:
        """Pass an agent's message to its group; return why it was refused, None if it was not."""
        membership = self.groups.touch(name)
        if membership is None:
            return f"there is no group '{name}'"
        membership.reports.heard(fence, now=now)
        match message:
            case Renew(progress=progress, usage=usage, workers=workers, ranks=ranks):
                reported = self.reported[name]
                if node := membership.nodes.get(fence.node):
                    reported.hear(node.record.info.name, progress, workers)
                if progress is not None and fence.node in membership.round.members[:1]:
                    reported.pace(progress.step, now)
                return membership.reports.renew(
                    fence, progress, usage=usage, workers=workers, ranks=ranks, now=now
                )
            case Warmed():
                return membership.reports.warmed(fence, now=now)
            case Ready(store=store):
                return membership.reports.ready(fence, store, now=now)
            case WorkersFailed(failures=failures):
                return membership.reports.failed(fence, failures, now=now)
            case WorkersSucceeded():
                return membership.reports.succeeded(fence, now=now)
            case WorkersReached(reached=reached, missing=missing):
                return membership.reports.reached(fence, reached, missing, now=now)
            case HandoverTold(able=able, handover=handover):
                return membership.reports.handover_told(fence, handover, able=able, now=now)
            case HandedOver(step=step, copied=copied, handover=handover):
                return membership.reports.handed_over(fence, handover, step, copied=copied, now=now)
            case HandoverPublished(stored=stored, handover=handover):
                return membership.reports.handover_published(fence, handover, stored, now=now)
            case Leaving(reason=reason):
                return membership.reports.leaving(fence, reason, now=now)
            case Leave(reason=reason):
                membership.left(fence, reason, now=now)
                return None
            case _:
                return f"{type(message).__name__} is not expected here"

    def _close(self, peer: Peer, now: float) -> None:
        address = self._nodes.pop(peer, None)
        if address is not None and self.peers.get(address) is peer:
            del self.peers[address]
            if group := self.groups.touch(address.group):
                group.disconnected(address.node, now=now)

    def _forget(self, peer: Peer) -> None:
        """Close a connection that no longer belongs to a node."""
        address = self._nodes.pop(peer, None)
        if address is not None and self.peers.get(address) is peer:
            del self.peers[address]
        peer.close()
