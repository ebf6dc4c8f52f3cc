"""A whole job on this machine, from its folder to its end: what `resile up` runs.

It consists of a master as a child process, a platform that runs the nodes, the controller, and the
job API for other processes. However the job ends (by itself, deleted from another terminal, or
interrupted), the nodes are stopped first, then the last state is written, then the master is
stopped. If this process is killed, the kernel and the nodes' supervisors end everything else.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from resile.job.events import EventKind
from resile.job.spec.job import ElasticJob
from resile.job.view import JobView, ended_view
from resile.ledger import FOLDER_VARIABLE
from resile.local.api import serving_port, serving_socket
from resile.local.capacity import Capacity
from resile.local.controller import Ending, LocalController
from resile.local.history import JobHistory
from resile.local.jobdir import JobDir
from resile.local.limits.usage import UsageMeter
from resile.local.master_process import MasterProcess
from resile.local.platform import LocalPlatform
from resile.local.requests import RequestBook
from resile.platform.node_env import node_environments
from resile.wire.auth import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from resile.wire.client import Access
from resile.wire.endpoint import Endpoint
from resile.wire.http_client import MasterHttpClient, master_session
from resile.wire.views import EventView

__all__ = ["JobRunner"]

USAGE_INTERVAL = 2.0
"""Seconds between two measurements of what nodes use: frequent enough to watch, and cheap."""


class JobRunner:
    """A job. Call :meth:`run` once, and :meth:`interrupt` from a signal handler."""

    def __init__(
        self,
        job: ElasticJob,
        *,
        folder: JobDir,
        capacity: Capacity,
        tell: Callable[[list[EventView]], None],
        api_port: int | None = None,
    ) -> None:
        """``folder`` must be locked. ``tell`` is called with all events. ``api_port``: serve the
        job API at this loopback port, too; 0: any free one."""
        self._job = job
        self._folder = folder
        self._api_port = api_port
        self.name = job.metadata.name
        self.logs = folder.logs
        self.history = JobHistory(folder, tell)
        self._earlier = folder.requests_of_a_killed_up()
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
        self._interrupted = asyncio.Event()
        self._impatient = asyncio.Event()

    def interrupt(self) -> None:
        """End the job: gracefully the first time, at once the second."""
        (self._impatient if self._interrupted.is_set() else self._interrupted).set()

    @property
    def requests(self) -> RequestBook:
        """The users' requests."""
        return self._running_controller().requests

    async def view(self) -> JobView:
        """Return the current view of the job; almost empty before it begins."""
        if self._controller is None:
            return JobView(name=self.name, phase="")
        return await self._controller.live_view()

    async def run(self) -> Ending:
        """Run the job to its end. Raises MasterFailed if its master cannot be started."""
        try:
            endpoint = await self._master.start()
            self._folder.write_endpoint(endpoint)
            async with master_session() as session:
                access = Access(endpoint, self._token)
                return await self._with_master(endpoint, MasterHttpClient(session, access))
        finally:
            await self._master.stop()

    async def _with_master(self, endpoint: Endpoint, master: MasterHttpClient) -> Ending:
        controller = self._controller = LocalController(
            self._job,
            platform=self._platform,
            master=master,
            folder=self._folder,
            history=self.history,
            environments=self._environments(endpoint),
        )
        controller.requests.restore(self._earlier)
        async with self._serving():
            keeping = asyncio.create_task(self._master.keep(restarted=controller.publish_again))
            beside = [
                asyncio.create_task(controller.follow_master()),
                asyncio.create_task(self._measure(controller)),
            ]
            end = Ending.FAILED
            try:
                end = await self._until_over(controller, keeping)
            finally:
                await self._end_nodes()
                await _cancel(beside)
                await controller.finish_history()
                self._folder.write_view(ended_view(await controller.live_view(), end.value))
                await _cancel([keeping])
        return end

    @asynccontextmanager
    async def _serving(self) -> AsyncIterator[None]:
        """Serve the job API within the block."""
        async with AsyncExitStack() as stack:
            with self._folder.usable():
                await stack.enter_async_context(serving_socket(self, self._folder.path))
            if self._api_port is not None:
                port = await stack.enter_async_context(
                    serving_port(self, self._api_port, token=self._token)
                )
                text = f"the job API listens at http://127.0.0.1:{port}"
                kind = EventKind.API_LISTENING.value
                self.history.append([EventView(seq=0, time=time.time(), kind=kind, text=text)])
            yield

    def _running_controller(self) -> LocalController:
        if self._controller is None:
            raise RuntimeError("the job was not started")
        return self._controller

    async def _until_over(self, controller: LocalController, keeping: asyncio.Task[None]) -> Ending:
        controlling = asyncio.create_task(controller.run())
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

    async def _measure(self, controller: LocalController) -> None:
        meter = UsageMeter(self._platform)
        while True:
            await asyncio.sleep(USAGE_INTERVAL)
            controller.usage = meter.read(time.monotonic())

    def _environments(self, endpoint: Endpoint) -> dict[str, dict[str, str]]:
        return node_environments(
            self._job.metadata.name,
            self._job.spec,
            master=endpoint,
            ledger=None if FOLDER_VARIABLE in os.environ else self._folder.ledger.absolute(),
        )


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _without_token(environment: Mapping[str, str]) -> dict[str, str]:
    """Drop the token of our own environment: it is another job's, and would override the file."""
    return {name: value for name, value in environment.items() if name != TOKEN_VARIABLE}
