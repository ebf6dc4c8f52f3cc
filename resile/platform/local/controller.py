"""The reconcile loop on one machine: observe, decide, write the status, act, inform the master.

Level-triggered: it observes everything whenever something may have changed (a node, the master's
events, a timer) and never what exactly changed, so nothing is lost with a message. The decisions
are made by ``control/``. The order matters twice. Nodes are observed before the master is asked: an
agent exits because of an outcome only after its master has stored it, so for a node seen ended the
master has the reason. And the status is on disk before it is acted on, so no id is used twice.
A master that is unavailable blocks nothing for long: its last view is used, and the status is
published when it is back.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any, Protocol

import msgspec

from resile.control.actions import Action, Decision, StartNode
from resile.control.observed import GroupReport, MasterState, Observed, ObservedNode
from resile.control.policy import Policy
from resile.control.reconcile import reconcile
from resile.job.addresses import Addresses, has_addresses
from resile.job.spec import ElasticJob
from resile.job.status import DecisionNote, JobPhase, JobStatus
from resile.job.view import JobView, combine
from resile.platform.local.addressing import LocalAddressing
from resile.platform.local.jobfolder import JobFolder
from resile.platform.reports import group_directives, nodes_to_come, reports_in
from resile.platform.story import told_by
from resile.wire.errors import RefusedByPeer, Unreachable, WireError
from resile.wire.inquiry import Inquiry
from resile.wire.views import Publication

__all__ = ["Ending", "LocalController", "Platform"]

log = logging.getLogger("resile.up")

MASTER_PATIENCE = 10.0
"""Seconds. A killed master is back within one; after this, nodes are reconciled without it."""

ONE_MACHINE = Policy(hosts_avoided=0)
"""There is no other machine to go to."""

ASK_AGAIN = 0.05
UNPUBLISHED = timedelta(seconds=0.5)
"""Delay until a status that did not reach the master is published again."""


class Ending(Enum):
    """The outcome of a job on this machine."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    DELETED = "Deleted"
    INTERRUPTED = "Interrupted"
    """By a signal to `up`."""


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
        inquiry: Inquiry,
        folder: JobFolder,
        environments: Mapping[str, Mapping[str, str]],
    ) -> None:
        """``environments``: the variables of each role's nodes besides the manifest's."""
        self._given = self._job = job
        self._platform = platform
        self._inquiry = inquiry
        self._folder = folder
        self._environments = environments
        self._manifest: dict[str, Any] = msgspec.to_builtins(job)
        self._addressing = LocalAddressing(folder) if has_addresses(job.spec) else None
        self._addresses: Addresses | None = None
        self._news = asyncio.Event()
        self._status = JobStatus()
        self._notes: list[DecisionNote] = []
        """All notes of the job, so that each has a number."""
        self._told = 0
        self._published: JobStatus | None = None
        self._seen = JobView(name=job.metadata.name, phase="")
        self._reports: dict[str, GroupReport] = {}
        self._master = MasterState(ready=False)
        self._created = time.time()

    def look(self) -> None:
        """Trigger a reconcile: something may have changed."""
        self._news.set()

    def tell_again(self) -> None:
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
        """Get the master's current view; retry for ``MASTER_PATIENCE`` seconds."""
        deadline = time.monotonic() + MASTER_PATIENCE
        while True:
            try:
                self._seen = await asyncio.to_thread(self._inquiry.view)
            except WireError as error:
                if time.monotonic() > deadline:
                    log.warning("continuing without the master: %s", error)
                    self._master = MasterState(ready=False, problem=str(error))
                    return
                await asyncio.sleep(ASK_AGAIN)
            else:
                self._reports = {
                    **reports_in(self._seen.trainings, self._job.spec, at=self._seen.seen),
                    **self._reports,
                }
                self._heed(self._seen.suspend)
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
            wanted=self._seen.wishes,
            deleting=self._seen.deleting,
        )
        return reconcile(self._job, self._status, observed, _now(), policy=ONE_MACHINE)

    def _write_down(self, decision: Decision) -> None:
        if decision.status == self._status:
            return
        self._notes += decision.notes
        self._notes += told_by(self._status, decision.status, now=_now())
        self._status = decision.status
        self._folder.write_view(self.view())

    def _address(self, decision: Decision) -> None:
        """Assign addresses to all nodes before one of them is started."""
        if self._addressing is not None:
            starting = [a.node for a in decision.actions if isinstance(a, StartNode)]
            self._addresses = self._addressing.update(self._job, self._status, starting=starting)

    def view(self) -> JobView:
        """The job as this controller knows it."""
        return combine(
            self._job.metadata.name,
            status=self._status,
            trainings=self._seen.trainings,
            manifest=self._manifest,
            wishes=self._seen.wishes,
            suspend=self._seen.suspend,
            deleting=self._seen.deleting,
            created=self._created,
            now=time.time(),
        )

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
        """Publish the status to the master if it has changed; retried if the master is away."""
        if self._published == self._status:
            return
        publication = Publication(
            manifest=self._manifest,
            status=self._status,
            wanted_nodes=nodes_to_come(self._job, self._status),
            groups=group_directives(self._job, self._status),
            first_note=self._told,
            notes=tuple(self._notes[self._told :]),
            addresses=self._addresses,
        )
        try:
            await asyncio.to_thread(self._inquiry.publish, publication)
        except Unreachable as error:
            log.debug("the master is unavailable: %s", error)
            return
        except RefusedByPeer as error:
            log.warning("the master rejected the job's status: %s", error)
        self._published = publication.status
        self._told += len(publication.notes)

    def _ending(self, decision: Decision) -> Ending | None:
        if self._seen.deleting:
            return Ending.DELETED if decision.removable else None
        busy = self._status.asks or any(node.live for node in self._platform.observe())
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
