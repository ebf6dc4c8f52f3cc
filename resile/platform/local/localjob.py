"""A whole job on this machine, from its folder to its end: what `resile up` runs.

A master as a child process, a platform that runs the nodes, and the controller between them; the
story is written down as it is told. However the job ends (by itself, deleted from elsewhere, or
interrupted), the nodes are ended first, then the last view is taken, then the master goes.
Should this process be killed, the kernel and the nodes' wardens end everything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Mapping

from resile.job.spec import ElasticJob
from resile.job.view import JobView, ended_view
from resile.ledger import FOLDER_VARIABLE
from resile.platform.local.capacity import Capacity
from resile.platform.local.controller import Ending, LocalController
from resile.platform.local.jobfolder import JobFolder
from resile.platform.local.masterprocess import MasterProcess
from resile.platform.local.newsreader import NewsReader
from resile.platform.local.platform import LocalPlatform
from resile.platform.local.usagemeter import UsageMeter
from resile.platform.rendezvous import node_environments
from resile.wire.auth import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from resile.wire.endpoint import Endpoint
from resile.wire.errors import WireError
from resile.wire.inquiry import Inquiry
from resile.wire.views import EventView

__all__ = ["LocalJob"]

USAGE_INTERVAL = 2.0
"""Seconds between two usage reports to the master: frequent enough to watch, and cheap."""


class LocalJob:
    """One job. Call :meth:`run` once, and :meth:`interrupt` from a signal handler."""

    def __init__(
        self,
        job: ElasticJob,
        *,
        folder: JobFolder,
        capacity: Capacity,
        tell: Callable[[list[EventView]], None],
    ) -> None:
        """``folder`` must be locked. ``tell`` is called with all events."""
        self._job = job
        self._folder = folder
        self._tell = tell
        self._token = folder.begin()
        token_file = {TOKEN_FILE_VARIABLE: str(folder.token_file)}
        self._master = MasterProcess(
            folder.path,
            job=job.metadata.name,
            elasticity=job.spec.elasticity(),
            environment={**_without_token(os.environ), **token_file},
        )
        self._platform = LocalPlatform(
            job=job.metadata.name,
            folder=folder.path,
            capacity=capacity,
            environment=token_file,
        )
        self._controller: LocalController | None = None
        self._inquiry: Inquiry | None = None
        self._interrupted = asyncio.Event()
        self._impatient = asyncio.Event()

    def interrupt(self) -> None:
        """End the job: gracefully the first time, at once the second."""
        (self._impatient if self._interrupted.is_set() else self._interrupted).set()

    async def view(self) -> JobView | None:
        """The job as it is now; None before there is anything to see."""
        if self._inquiry is None or self._controller is None:
            return None
        try:
            return await asyncio.to_thread(self._inquiry.view)
        except WireError:
            return self._controller.view()

    async def run(self) -> Ending:
        """Run the job to its end. Raises MasterFailed if its master cannot be started."""
        try:
            endpoint = await self._master.start()
            self._folder.write_endpoint(endpoint)
            return await self._with_master(endpoint)
        finally:
            await self._master.stop()

    async def _with_master(self, endpoint: Endpoint) -> Ending:
        self._inquiry = Inquiry(endpoint, self._token)
        self._controller = LocalController(
            self._job,
            platform=self._platform,
            inquiry=self._inquiry,
            folder=self._folder,
            environments=self._environments(endpoint),
        )
        news = NewsReader(self._inquiry, self._heard)
        news.start()
        keeping = asyncio.create_task(self._master.keep(restarted=self._controller.tell_again))
        measuring = asyncio.create_task(self._tell_usage(self._inquiry))
        end = Ending.FAILED
        try:
            end = await self._until_over(keeping)
        finally:
            measuring.cancel()
            await self._end_nodes()
            await news.catch_up()
            await self._leave_view(end)
            keeping.cancel()
            await asyncio.gather(keeping, measuring, return_exceptions=True)
        return end

    async def _until_over(self, keeping: asyncio.Task[None]) -> Ending:
        if self._controller is None:
            raise RuntimeError("the job was not started")
        controlling = asyncio.create_task(self._controller.run())
        interrupted = asyncio.create_task(self._interrupted.wait())
        waits: list[asyncio.Task[Ending] | asyncio.Task[None] | asyncio.Task[bool]] = [
            controlling,
            keeping,
            interrupted,
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            if controlling.done():
                return controlling.result()
            if keeping.done():
                keeping.result()
            return Ending.INTERRUPTED
        finally:
            for task in (controlling, interrupted):
                task.cancel()
            await asyncio.gather(controlling, interrupted, return_exceptions=True)

    async def _end_nodes(self) -> None:
        """Stop all nodes with their grace period; a second interrupt kills them at once."""
        roles = self._job.spec.roles.values()
        grace = max(role.termination_grace_period_seconds for role in roles)
        closing = asyncio.create_task(self._platform.close(grace=grace))
        impatient = asyncio.create_task(self._impatient.wait())
        await asyncio.wait([closing, impatient], return_when=asyncio.FIRST_COMPLETED)
        impatient.cancel()
        if not closing.done():
            await self._platform.close(grace=0)
        await closing

    async def _leave_view(self, end: Ending) -> None:
        view = await self.view()
        if view is not None:
            self._folder.write_view(ended_view(view, end.value))

    def _heard(self, events: list[EventView]) -> None:
        if self._controller is not None:
            self._controller.look()
        self._folder.append_events(events)
        self._tell(events)

    async def _tell_usage(self, inquiry: Inquiry) -> None:
        meter = UsageMeter(self._platform)
        while True:
            await asyncio.sleep(USAGE_INTERVAL)
            with contextlib.suppress(WireError):
                await asyncio.to_thread(inquiry.tell_usage, meter.read(time.monotonic()))

    def _environments(self, endpoint: Endpoint) -> dict[str, dict[str, str]]:
        return node_environments(
            self._job.metadata.name,
            self._job.spec,
            master=endpoint,
            ledger=None if FOLDER_VARIABLE in os.environ else self._folder.ledger.absolute(),
        )


def _without_token(environment: Mapping[str, str]) -> dict[str, str]:
    """Drop the token of our own environment: it is another job's, and would override the file."""
    return {name: value for name, value in environment.items() if name != TOKEN_VARIABLE}
