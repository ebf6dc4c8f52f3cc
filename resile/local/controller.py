"""The reconcile loop on one machine: observe, decide, write the status, act, inform the master.

Level-triggered: it observes everything whenever something may have changed (a node, the master's
events, a timer) and never what exactly changed, so nothing is lost with a message. The decisions
are made by ``control/``. The order matters three times. Nodes are observed before the master is
asked: an agent exits because of an outcome only after its master has stored it, so for a node
seen ended the master has the reason. The status is on disk before it is acted on, so no id is
used twice. Ports and addresses are on disk before a node that needs them is started. An
unavailable master blocks nothing for long: its last view is used, and the status is published
when it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any, Protocol

import msgspec

from resile.control.actions import Action, Decision, StartNode
from resile.control.node_events import events_between
from resile.control.observed import GroupReport, MasterState, Observed, ObservedNode
from resile.control.policy import Policy
from resile.control.reconcile import reconcile
from resile.job.addresses import (
    Addresses,
    NodeSlot,
    address_variables,
    encode_addresses,
    has_addresses,
    local_addresses,
    ranks_to_list,
)
from resile.job.events import EventKind
from resile.job.node import Node
from resile.job.spec.job import ElasticJob
from resile.job.status import DecisionNote, JobPhase, JobStatus
from resile.job.training import TrainingView
from resile.job.view import MAIN, JobView, combine
from resile.local.history import JobHistory, MasterEvents
from resile.local.jobdir import JobDir
from resile.local.ports import PortAllocator
from resile.local.requests import RequestBook
from resile.platform.master_reports import directive_for, group_reports
from resile.wire.errors import RefusedByPeer, Unreachable, WireError
from resile.wire.http_client import MasterHttpClient
from resile.wire.messages import Usage
from resile.wire.views import EventView

__all__ = [
    "Ending",
    "LocalAddresses",
    "LocalController",
    "Platform",
]


class LocalAddresses:
    """The addresses of one job in which a role has ports."""

    def __init__(self, folder: JobDir) -> None:
        self._folder = folder
        self._book: PortAllocator | None = None
        self._written = b""

    def update(
        self, job: ElasticJob, status: JobStatus, *, starting: Iterable[Node] = ()
    ) -> Addresses:
        """Return the current addresses, with those of nodes that are about to start; replace the
        file if they changed. Raises FolderUnusable if it cannot be written, and NoPortError without
        a free port."""
        ranks = ranks_to_list(job, status)
        with self._folder.usable():
            book = self._book = self._book or self._folder.port_book()
            book.reserve(
                {
                    (role, rank): job.spec.roles[role].ports
                    for role, each in ranks.items()
                    for rank in each
                }
            )
            for node in starting:
                book.starting((node.role, node.rank))
        addresses = local_addresses(job, ranks, ports=book.ports)
        text = encode_addresses(addresses)
        if text != self._written:
            self._folder.write_addresses(text)
            self._written = text
        return addresses

    def variables(self, addresses: Addresses, node: Node) -> dict[str, str]:
        """Return a node's environment variables with its addresses."""
        place = NodeSlot(role=node.role, rank=node.rank)
        return address_variables(addresses, place, file=str(self._folder.addresses.absolute()))


log = logging.getLogger("resile.up")

MASTER_TIMEOUT = 10.0
"""Seconds. A killed master is back within one; after this, nodes are reconciled without it."""

ONE_MACHINE = Policy(max_avoided_hosts=0)
"""The policy without avoided hosts: there is no other machine."""

ASK_AGAIN = 0.05
UNPUBLISHED = timedelta(seconds=0.5)
"""Delay until a status that did not reach the master is published again."""


_ENDINGS = frozenset(
    kind.value for kind in (EventKind.JOB_SUCCEEDED, EventKind.JOB_FAILED, EventKind.JOB_STOPPED)
)


class Ending(Enum):
    """The outcome of a job on this machine."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    DELETED = "Deleted"
    INTERRUPTED = "Interrupted"
    """Ended by a signal to `up`."""


class Platform(Protocol):
    """The platform as the loop uses it."""

    changed: asyncio.Event

    async def apply(self, actions: Sequence[Action]) -> None:
        """Execute all actions; a failure is reported with its node."""

    def observe(self) -> tuple[ObservedNode, ...]:
        """Return all nodes."""


class LocalController:
    """Reconciles one job until it is over."""

    def __init__(
        self,
        job: ElasticJob,
        *,
        platform: Platform,
        master: MasterHttpClient,
        folder: JobDir,
        history: JobHistory,
        environments: Mapping[str, Mapping[str, str]],
    ) -> None:
        """``environments``: the variables of each role's nodes besides the manifest's."""
        self._given = self._job = job
        self._platform = platform
        self._master_client = master
        self._folder = folder
        self._history = history
        self._master_events = MasterEvents(master, history, changed=self.look)
        self.requests = RequestBook(job, folder, over=self._is_over, changed=self._requested)
        self._environments = environments
        self._manifest: dict[str, Any] = msgspec.to_builtins(job)
        self._addressing = LocalAddresses(folder) if has_addresses(job.spec) else None
        self._addresses: Addresses | None = None
        self._news = asyncio.Event()
        self._status = JobStatus()
        self._published: JobStatus | None = None
        self._trainings: dict[str, TrainingView] = {}
        """The training of every group by name, as last received from the master."""
        self._reports: dict[str, GroupReport] = {}
        self._master = MasterState(ready=False)
        self._created = time.time()
        self.usage: dict[str, Usage] = {}
        """The current usage of each node, by name."""

    async def follow_master(self) -> None:
        """Take the master's events into the history as they happen, until cancelled."""
        await self._master_events.follow()

    async def finish_history(self) -> None:
        """Take the last events of a master that is about to be stopped."""
        with contextlib.suppress(WireError):
            await self._master_events.catch_up()

    async def live_view(self) -> JobView:
        """Return the current view; the training is asked of the master, or the last one known."""
        with contextlib.suppress(WireError):
            self._trainings = await self._master_client.trainings()
        return self.view()

    def look(self) -> None:
        """Trigger a reconcile: something may have changed."""
        self._news.set()

    def publish_again(self) -> None:
        """Publish everything again: the master was restarted and does not store all of it."""
        self._published = None
        self._news.set()

    async def run(self) -> Ending:
        """Reconcile the job; return when it is over and none of its nodes is running."""
        while True:
            self._news.clear()
            self._platform.changed.clear()
            nodes = self._platform.observe()
            await self._ask_master()
            decision = self._decide(nodes)
            self._write_down(decision)
            self._address(decision)
            await self._platform.apply([self._with_environment(a) for a in decision.actions])
            await self._publish()
            ending = self._ending(decision)
            if ending is not None and self._published == self._status:
                return ending
            await self._something(decision.requeue_after)

    async def _ask_master(self) -> None:
        """Get the master's current view; retry for ``MASTER_TIMEOUT`` seconds."""
        deadline = time.monotonic() + MASTER_TIMEOUT
        while True:
            try:
                self._trainings = await self._master_client.trainings()
                await self._master_events.catch_up()
            except WireError as error:
                if time.monotonic() > deadline:
                    log.warning("continuing without the master: %s", error)
                    self._master = MasterState(ready=False, problem=str(error))
                    return
                await asyncio.sleep(ASK_AGAIN)
            else:
                self._reports = {
                    **group_reports(self._trainings, self._job.spec, at=time.time()),
                    **self._reports,
                }
                self._heed(self.requests.current.suspend)
                self._master = MasterState(ready=True)
                return

    def _heed(self, suspend: bool | None) -> None:
        """Apply a request to suspend or resume: it overrides the manifest."""
        requested = self._given.spec.suspend if suspend is None else suspend
        if requested is not self._job.spec.suspend:
            spec = msgspec.structs.replace(self._given.spec, suspend=requested)
            self._job = msgspec.structs.replace(self._given, spec=spec)
            self._manifest = msgspec.to_builtins(self._job)

    def _decide(self, nodes: tuple[ObservedNode, ...]) -> Decision:
        observed = Observed(
            nodes=nodes,
            reports=self._reports,
            master=self._master,
            wanted=self.requests.current.sizes,
            deleting=self.requests.current.deleting,
        )
        return reconcile(self._job, self._status, observed, _now(), policy=ONE_MACHINE)

    def _write_down(self, decision: Decision) -> None:
        if decision.status == self._status:
            return
        notes = [*decision.notes, *events_between(self._status, decision.status, now=_now())]
        self._status = decision.status
        self._folder.write_view(self.view())
        self._history.append(self._event(note) for note in notes if not self._is_known(note))

    def _is_known(self, note: DecisionNote) -> bool:
        """Return whether the master has reported the job's end itself."""
        return note.reason in _ENDINGS and self._job.spec.main_group in self._reports

    def _event(self, note: DecisionNote) -> EventView:
        return self._new_event(note.reason, note.sentence, at=note.time.timestamp())

    def _is_over(self) -> bool:
        return self._status.finished or self._job.spec.main_group in self._reports

    def _requested(self, kind: EventKind, text: str) -> None:
        """Record a user's stored request as an event, and reconcile."""
        self._history.append([self._new_event(kind.value, text, at=time.time())])
        self.look()

    def _new_event(self, kind: str, text: str, *, at: float) -> EventView:
        training = self._trainings.get(MAIN)
        number = 0 if training is None else training.round
        return EventView(seq=0, time=at, kind=kind, text=text, round=number)

    def _address(self, decision: Decision) -> None:
        """Assign addresses to all nodes before one of them is started."""
        if self._addressing is not None:
            starting = [a.node for a in decision.actions if isinstance(a, StartNode)]
            self._addresses = self._addressing.update(self._job, self._status, starting=starting)

    def view(self) -> JobView:
        """Return the job as this controller knows it."""
        seen = combine(
            self._job.metadata.name,
            status=self._status,
            trainings=self._trainings,
            manifest=self._manifest,
            usage=self.usage,
            requested_sizes=self.requests.current.sizes,
            suspend=self.requests.current.suspend,
            deleting=self.requests.current.deleting,
            created=self._created,
            now=time.time(),
        )
        return msgspec.structs.replace(seen, platform="local")

    def _with_environment(self, action: Action) -> Action:
        if not isinstance(action, StartNode):
            return action
        env, ports = {**self._environments[action.node.role], **action.env}, action.ports
        if self._addressing is not None and self._addresses is not None:
            own = self._addresses.find(action.node.role, action.node.rank)
            ports = own.ports if own is not None else {}
            env |= self._addressing.variables(self._addresses, action.node)
        return dataclasses.replace(action, env=env, ports=ports)

    async def _publish(self) -> None:
        """Publish the status to the master if it has changed; retried if that is unavailable."""
        if self._published == self._status:
            return
        status = self._status
        directive = directive_for(self._job, status, addresses=self._addresses)
        try:
            await self._master_client.direct(directive)
        except Unreachable as error:
            log.debug("the master is unavailable: %s", error)
            return
        except RefusedByPeer as error:
            log.warning("the master rejected the directive: %s", error)
        self._published = status

    def _ending(self, decision: Decision) -> Ending | None:
        if self.requests.current.deleting:
            return Ending.DELETED if decision.removable else None
        busy = self._status.pending_requests or any(node.live for node in self._platform.observe())
        if not self._status.finished or busy:
            return None
        succeeded = self._status.phase is JobPhase.SUCCEEDED
        return Ending.SUCCEEDED if succeeded else Ending.FAILED

    async def _something(self, at_most: timedelta | None) -> None:
        """Wait until something may have changed."""
        delays = [at_most] if at_most is not None else []
        if self._published != self._status:
            delays.append(UNPUBLISHED)
        timeout = min(delays).total_seconds() if delays else None
        waits = [
            asyncio.ensure_future(event.wait()) for event in (self._news, self._platform.changed)
        ]
        try:
            await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


def _now() -> datetime:
    return datetime.now(timezone.utc)
