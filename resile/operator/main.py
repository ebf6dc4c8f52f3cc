"""Run an operator: start the informers, wait for leadership, reconcile all jobs.

No job is reconciled before all three caches are synced, because a pod that is not in the cache
yet would look like one that was deleted. A standby runs the informers too, so it takes over with
warm caches.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any

import aiohttp

from resile.kube.client import KubeClient
from resile.kube.errors import KubeError
from resile.kube.resources import PODS
from resile.kube.runtime.election import LeaderElection
from resile.kube.runtime.events import EventRecorder
from resile.kube.runtime.workqueue import Retry, WorkQueue
from resile.operator.build.labels import OPERATOR_LEASE, job_key
from resile.operator.context import OperatorContext, OperatorOptions
from resile.operator.events import JobEventReporter
from resile.operator.health import serve_health
from resile.operator.informers import Informers, Key
from resile.operator.metrics import OperatorMetrics
from resile.operator.reconciler import Reconciler
from resile.wire.http_client import master_session

__all__ = [
    "NoImage",
    "own_pod",
    "run_operator",
    "running_alongside",
]


@contextlib.asynccontextmanager
async def running_alongside(work: Iterable[Awaitable[Any]]) -> AsyncIterator[None]:
    """Run these tasks while the block runs.

    None of them returns, except by an error. Then the block is cancelled and the error raised: an
    operator that continued without one of its informers would decide from stale data, while one
    that exits is restarted.
    """
    block = asyncio.current_task()
    tasks = [asyncio.ensure_future(one) for one in work]

    def ended(task: asyncio.Future[Any]) -> None:
        if not task.cancelled() and block is not None:
            block.cancel()

    for task in tasks:
        task.add_done_callback(ended)
    try:
        yield
    finally:
        faults = [task.exception() for task in tasks if task.done() and not task.cancelled()]
        for task in tasks:
            task.remove_done_callback(ended)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if faults:
            raise faults[0] or RuntimeError("a background task returned unexpectedly")


log = logging.getLogger("resile.operator")

REST_PER_POD = 0.0001
"""Minimum seconds between two reconciles of a job, for each of its pods: half a second at 5,000. A
reconcile costs about half as much, so the largest job leaves most of the time to others."""


async def run_operator(options: OperatorOptions) -> None:
    """Run until SIGTERM or SIGINT. Raises KubeError if the cluster cannot be used at all."""
    working = asyncio.ensure_future(_work(options))
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, working.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await working


async def _work(options: OperatorOptions) -> None:
    client = KubeClient.connect(kubeconfig=options.kubeconfig, context=options.context)
    async with client, master_session() as session:
        image = options.image or await _own_image(client, options.pod)
        await _Operator(options, client, session, image=image).run()


class NoImage(Exception):
    """The image of masters is neither given nor known from the operator's own pod."""


def own_pod() -> Key | None:
    """Return the pod that this process runs in, if its manifest sets the variables."""
    namespace, name = os.environ.get("POD_NAMESPACE"), os.environ.get("POD_NAME")
    return (namespace, name) if namespace and name else None


async def _own_image(client: KubeClient, pod: Key | None) -> str:
    if pod is None:
        raise NoImage("--image is required: it runs the masters of jobs that do not name an image")
    namespace, name = pod
    found = await client.get(PODS, name, namespace)
    image: str = found["spec"]["containers"][0]["image"]
    return image


class _Operator:
    """The parts of an operator, wired together."""

    def __init__(
        self,
        options: OperatorOptions,
        client: KubeClient,
        session: aiohttp.ClientSession,
        *,
        image: str,
    ) -> None:
        self._options = options
        self._metrics = OperatorMetrics()
        self._queue: WorkQueue[Key] = WorkQueue(observer=self._metrics.queue)
        self._recorder = EventRecorder(client, owner_of=job_key)
        self._world = Informers.create(
            client, namespace=options.settings.namespace, changed=self._queue.add
        )
        self._context = OperatorContext(
            client=client,
            world=self._world,
            session=session,
            reporter=JobEventReporter(self._recorder, self._world),
            settings=options.settings,
            image=image,
            requeue=self._queue.add,
        )
        self._election: LeaderElection | None = None
        if options.elect:
            namespace = options.lease_namespace or client.namespace
            self._election = LeaderElection(
                client, OPERATOR_LEASE, namespace=namespace, identity=options.identity
            )
        self._metrics.follow(
            queue=self._queue,
            reflectors=self._world.reflectors,
            recorder=self._recorder,
            election=self._election,
        )

    async def run(self) -> None:
        listen = self._options.listen
        ready = {f"{one.kind.plural} listed": one.synced.is_set for one in self._world.reflectors}
        async with (
            serve_health(
                self._metrics.text, ready, host=listen.listening_host, port=listen.port
            ) as port,
            running_alongside(one.run() for one in self._world.reflectors),
            running_alongside([self._recorder.run()]),
        ):
            log.info("serving /metrics, /healthz and /readyz on %s:%d", listen.host, port)
            for reflector in self._world.reflectors:
                await reflector.synced.wait()
            log.info("caches are synced: %d jobs", len(self._world.jobs.store))
            if self._election is None:
                await self._lead()
            else:
                await self._election.run(self._lead)

    async def _lead(self) -> None:
        """Reconcile all jobs until cancelled."""
        reconciler = Reconciler(self._context)

        async def look(key: Key) -> None:
            try:
                again = await reconciler.reconcile(key)
            except KubeError as error:
                raise Retry(str(error)) from None
            self._queue.rest(key, REST_PER_POD * len(self._world.pods.by_index(key)))
            if again is not None:
                self._queue.add_after(key, again)

        for key in self._world.jobs.store:
            self._queue.add(key)
        try:
            await self._queue.run(look, workers=self._options.settings.workers)
        finally:
            await reconciler.close()
