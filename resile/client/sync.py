"""The blocking facade of the client, for commands and scripts that do not use asyncio.

Everything runs in an event loop in a separate thread, so a caller may have a running loop.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from resile.client.cluster.cluster import Cluster
from resile.client.find import find_job as find_job_async
from resile.client.job import Batch, Job, NodeFilter, Warn, all_nodes, no_warning
from resile.job.training import NodeView
from resile.job.view import JobView
from resile.system.loop_thread import LoopThread
from resile.wire.auth import Scope
from resile.wire.views import EventView

if TYPE_CHECKING:
    from resile.client.cluster.apply import Submission
    from resile.client.cluster.job import ClusterJob
    from resile.client.cluster.startup_progress import StartupProgress
    from resile.job.spec.job import ElasticJob

__all__ = ["SyncCluster", "SyncClusterJob", "SyncJob", "find_job"]

T = TypeVar("T")


class SyncJob:
    """A job, running or not. :meth:`close` it, or use it in a ``with`` statement."""

    def __init__(self, job: Job, loop: LoopThread) -> None:
        self.job = job
        """The asynchronous job behind it."""
        self._loop = loop
        self.name = job.name
        self.platform = job.platform
        self.namespace = job.namespace

    def __repr__(self) -> str:
        return repr(self.job)

    def __enter__(self) -> SyncJob:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close connections and end the thread."""
        self._loop.call(self.job.aclose())
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of ``work``, run where the job's requests run."""
        return self._loop.call(work)

    # --- reading ----------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """True if a controller still manages it."""
        return self.call(self.job.running())

    @property
    def unseen(self) -> bool:
        """True if the controller had not yet seen the current manifest when last asked."""
        return self.job.unseen

    def view(self) -> JobView:
        """Return the full view of the job; the last one if it is gone."""
        return self.call(self.job.view())

    def phase(self, view: JobView | None = None) -> str:
        """Return the job's state in one word, also when it is gone."""
        return self.call(self.job.phase(view))

    def where(self) -> dict[str, str]:
        """Return where the job is, as named facts for a person."""
        return self.job.where()

    def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        """Return what happened after event ``since``; wait up to ``wait`` seconds for the first."""
        return self.call(self.job.events(since=since, wait=wait))

    def has_nodes(self) -> bool:
        """Return whether it has any node."""
        return self.call(self.job.has_nodes())

    def pause(self) -> None:
        """Wait for one poll interval."""
        time.sleep(self.job.poll_interval)

    # --- logs -------------------------------------------------------------------------------

    def log_nodes(self) -> list[NodeView]:
        """Return the nodes that have output."""
        return self.call(self.job.log_nodes())

    def lines(
        self,
        wanted: NodeFilter = all_nodes,
        *,
        tail: int | None = None,
        follow: bool = False,
        warn: Warn = no_warning,
    ) -> Generator[tuple[str, str], None, None]:
        """Yield the output of nodes: name and line. With ``follow`` until the job is over;
        ``tail``: only so many lines of the output that exists at first."""
        return self._iterate(lambda: self.job.lines(wanted, tail=tail, follow=follow, warn=warn))

    def master_lines(
        self, *, tail: int | None = None, follow: bool = False, warn: Warn = no_warning
    ) -> Generator[tuple[str, str], None, None]:
        """Yield the output of its master: name and line."""
        return self._iterate(lambda: self.job.master_lines(tail=tail, follow=follow, warn=warn))

    def master_trouble(self) -> str:
        """Return why its master prints nothing, in a sentence; empty if nothing is wrong."""
        return self.call(self.job.master_trouble())

    def _iterate(
        self, begin: Callable[[], AsyncGenerator[Batch, None]]
    ) -> Generator[tuple[str, str], None, None]:
        batches = self.call(_begun(begin))
        try:
            while (batch := self.call(_next_of(batches))) is not None:
                yield from batch
        finally:
            self.call(_end(batches))

    # --- changing ---------------------------------------------------------------------------

    def scale(self, sizes: Mapping[str, int]) -> None:
        """Ask for other sizes, by role; raises InvalidState for one that the job cannot have."""
        self.call(self.job.scale(sizes))

    def suspend(self) -> bool:
        """Stop all nodes and keep the job; False if it is suspended already."""
        return self.call(self.job.suspend())

    def resume(self) -> bool:
        """Continue a suspended job; False if it is not suspended."""
        return self.call(self.job.resume())

    def delete(self) -> None:
        """Request its deletion."""
        self.call(self.job.delete())

    def gone(self, *, wait: bool, warn: Warn = no_warning) -> bool:
        """After :meth:`delete`: return whether nothing of it is left; ``wait``: wait for that."""
        return self.call(self.job.gone(wait=wait, warn=warn))

    def token(self, scope: Scope) -> str:
        """Return the job's token of that scope, for its HTTP API."""
        return self.call(self.job.token(scope))


class SyncClusterJob(SyncJob):
    """A job of a cluster."""

    job: ClusterJob

    def startup_progress(self) -> StartupProgress:
        """Return the progress of the job's start."""
        return self.call(self.job.startup_progress())


class SyncCluster:
    """A cluster whose requests run in a separate thread."""

    def __init__(self, cluster: Cluster, loop: LoopThread) -> None:
        self.cluster = cluster
        self.loop = loop
        self.name = cluster.name
        self.namespace = cluster.namespace

    @classmethod
    def connect(
        cls,
        *,
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: str | os.PathLike[str] | None = None,
    ) -> SyncCluster:
        """Return the cluster that kubectl would talk to. Nothing is sent yet."""
        cluster = Cluster.connect(namespace=namespace, context=context, kubeconfig=kubeconfig)
        return cls(cluster, LoopThread())

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of ``work``, run where the requests run."""
        return self.loop.call(work)

    def submit(self, job: ElasticJob) -> tuple[SyncClusterJob, Submission]:
        """Create the job, or change the one of its name; raises KubeError if it is refused."""
        from resile.client.cluster.apply import submit_job

        submission = self.call(submit_job(self.cluster, job))
        return SyncClusterJob(submission.job, self.loop), submission

    def close(self) -> None:
        """Close connections and end the thread."""
        self.call(self.cluster.aclose())
        self.loop.close()


def find_job(
    name: str,
    *,
    namespace: str | None = None,
    context: str | None = None,
    kubeconfig: str | os.PathLike[str] | None = None,
) -> SyncJob:
    """Return the job of that name: on the cluster that the options choose, else on this machine,
    else on the cluster that kubectl would talk to. Raises NoSuchJob, which names the others."""
    loop = LoopThread()
    try:
        found = loop.call(
            find_job_async(name, namespace=namespace, context=context, kubeconfig=kubeconfig)
        )
    except BaseException:
        loop.close()
        raise
    return SyncJob(found, loop)


async def _begun(begin: Callable[[], AsyncGenerator[Batch, None]]) -> AsyncGenerator[Batch, None]:
    """Return the generator, created in the loop: on Python 3.10 a queue belongs to its loop."""
    return begin()


async def _next_of(batches: AsyncGenerator[Batch, None]) -> Batch | None:
    return await anext(batches, None)


async def _end(batches: AsyncGenerator[Batch, None]) -> None:
    await batches.aclose()
