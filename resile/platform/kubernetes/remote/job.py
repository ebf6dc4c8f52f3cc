"""One job of a cluster, to look at and to steer: what every command and script works with.

Looking is patient: an API server that is restarted in the middle is waited for, as a master is on
one machine. Asking for a change is not: nobody knows whether it was heard.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any

from resile.job.spec import ElasticJob
from resile.job.training import NodeView
from resile.job.view import JobView, ended_view
from resile.platform.kubernetes.errors import (
    Conflict,
    Forbidden,
    NotFound,
)
from resile.platform.kubernetes.kinds import ELASTIC_JOBS, KubeObject, key_of
from resile.platform.kubernetes.labels import MASTER, NODE
from resile.platform.kubernetes.remote.cluster import Cluster
from resile.platform.kubernetes.remote.errors import NoSuchJob, NotNow
from resile.platform.kubernetes.remote.headway import master_line
from resile.platform.kubernetes.remote.listening import Listener
from resile.platform.kubernetes.remote.patience import PATIENCE, patiently
from resile.platform.kubernetes.remote.podlogs import (
    Batch,
    PodLogs,
    has_begun,
    job_pods,
    node_views,
)
from resile.platform.kubernetes.remote.seeing import (
    is_behind,
    is_over,
    job_in,
    phase_of,
    status_in,
    view_of,
)
from resile.platform.kubernetes.remote.sizes import wrong_size
from resile.wire.views import EventView

__all__ = ["DELETED", "ClusterJob"]

PAUSE = 0.5
"""Between two looks at something that is waited for: soon for a person, seldom for a server."""

WAITS_UNTOLD = 10.0
"""Seconds that the end of a job may take without a word: most nodes save and stop within them."""

DELETED = "Deleted"


class ClusterJob:
    """A job, running or not. ``raw``: its object, as the API server had it last."""

    platform = "kubernetes"

    def __init__(self, cluster: Cluster, raw: KubeObject) -> None:
        self._cluster = cluster
        self.namespace, self.name = key_of(raw)
        self._uid: str = raw["metadata"]["uid"]
        self._raw = raw
        self._gone = False
        self._listener: Listener | None = None

    def __repr__(self) -> str:
        return f"<job {self.name} in namespace {self.namespace} of {self._cluster.name}>"

    # --- looking ----------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether it is still there and not over."""
        self._look()
        return not self._gone and not is_over(self._raw)

    @property
    def behind(self) -> bool:
        """Whether the operator had not looked at the present manifest when last it was asked."""
        return is_behind(self._raw)

    @property
    def unseen(self) -> bool:
        """Whether no operator had looked at it at all, or not at the present manifest."""
        return not self._gone and (status_in(self._raw) is None or self.behind)

    def view(self, *, within: float = PATIENCE) -> JobView:
        """Everything there is to see; of a deleted job, what there was last.

        ``within``: for how many seconds an API server that is away is waited for.
        """
        self._look(within=within)
        drawn = view_of(self._raw, now=time.time())
        return ended_view(drawn, DELETED) if self._gone else drawn

    def phase(self, _view: JobView | None = None) -> str:
        """The job in one word."""
        if self._gone:
            return DELETED
        return phase_of(self._raw)

    def where(self) -> dict[str, str]:
        """What else a person may want to know."""
        return {"Namespace": self.namespace, "Cluster": self._cluster.name}

    def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        """What happened after event ``since``, waiting up to ``wait`` seconds for the first."""
        if self._listener is None:
            self._listener = Listener(self._cluster, self._raw)
        return self._listener.events(since=since, wait=wait)

    def log_nodes(self) -> list[NodeView]:
        """The nodes whose output there is, or may come to be."""
        return [node for _, node in node_views(patiently(lambda: self._pods(NODE)))]

    def lines(
        self,
        wanted: Callable[[NodeView], bool] = lambda _node: True,
        *,
        tail: int | None = None,
        follow: bool = False,
        warn: Callable[[str], None] = lambda _text: None,
    ) -> Generator[tuple[str, str], None, None]:
        """What nodes print: name and line. With ``follow`` until the job is over."""
        return self._lines(NODE, wanted, tail=tail, follow=follow, warn=warn)

    def master_lines(
        self,
        *,
        tail: int | None = None,
        follow: bool = False,
        warn: Callable[[str], None] = lambda _text: None,
    ) -> Generator[tuple[str, str], None, None]:
        """What its master prints; its log goes with its pod."""
        return self._lines(MASTER, lambda _master: True, tail=tail, follow=follow, warn=warn)

    def _lines(
        self,
        component: str,
        wanted: Callable[[NodeView], bool],
        *,
        tail: int | None,
        follow: bool,
        warn: Callable[[str], None],
    ) -> Generator[tuple[str, str], None, None]:
        logs = PodLogs(
            self._cluster.client,
            (self.namespace, self.name),
            uid=self._uid,
            component=component,
            wanted=wanted,
            tail=tail,
            warn=warn,
        )
        batches = logs.follow() if follow else logs.so_far()
        try:
            while (batch := self._cluster.ask(_next_of(batches))) is not None:
                yield from batch
        finally:
            self._cluster.ask(_end(batches))

    def master_trouble(self) -> str:
        """Why its master prints nothing, in a sentence; empty if nothing is wrong with it."""
        status, pods = self.view().status, self.masters()
        why = "" if status is None else status.master_problem
        if pods:
            begun = any(has_begun(pod) for pod in pods)
            return "" if begun else master_line(pods, why)
        told = f"job '{self.name}' has no master at the moment"
        return f"{told}: {why}" if why else f"{told} ({self.phase()})"

    def masters(self) -> list[KubeObject]:
        """The pods of its master: one, unless it is being replaced."""
        return patiently(lambda: self._pods(MASTER))

    def has_nodes(self) -> bool:
        """Whether any pod of a node is there; who may not see pods has to believe the status."""
        try:
            return bool(patiently(lambda: self._pods(NODE)))
        except Forbidden:
            status = status_in(self._raw)
            return status is None or any(role.active for role in status.roles.values())

    def pause(self) -> None:
        """Wait a little before looking again."""
        time.sleep(PAUSE)

    # --- steering ---------------------------------------------------------------------------

    def scale(self, sizes: Mapping[str, int]) -> None:
        """Ask for other sizes, by role; raises NotNow for one that the job cannot have."""
        job = self._steerable("scaled")
        wrong = wrong_size(job.spec, sizes)
        if wrong:
            raise NotNow(wrong)
        scaled = job.spec.scaled_role()
        roles = {
            role: {"replicas": {"wanted": size}}
            for role, size in sizes.items()
            if role != scaled and not isinstance(job.spec.roles[role].replicas, int)
        }
        replicas = {} if scaled is None or scaled not in sizes else {"replicas": sizes[scaled]}
        if roles:  # all in one request: together or not at all
            self._patch({"spec": {"roles": roles, **replicas}})
        elif replicas:
            self._patch({"spec": replicas}, subresource="scale")

    def suspend(self) -> bool:
        """Have all nodes stopped and the job kept; False if it is so already."""
        return self._set_suspend(True)

    def resume(self) -> bool:
        """Have a suspended job go on; False if it is not suspended."""
        return self._set_suspend(False)

    def delete(self) -> None:
        """Ask for its end. Its pods have their grace period and go with it."""
        try:
            self._cluster.ask(
                self._cluster.client.delete(ELASTIC_JOBS, self.name, self.namespace, uid=self._uid)
            )
        except (NotFound, Conflict):
            self._gone = True

    def gone(self, *, wait: bool, warn: Callable[[str], None] = lambda _text: None) -> bool:
        """After :meth:`delete`: whether nothing of it is left; ``wait`` until it is so.

        ``warn`` is told once what keeps it. Raises Forbidden if the job is gone and its pods may
        not be seen.
        """
        since, warned = time.monotonic(), False
        while wait and (left := self._left()):
            if not warned and time.monotonic() > since + WAITS_UNTOLD:
                warned = True
                warn(left)
            self.pause()
        return wait

    def _left(self) -> str:
        """What is still there of a deleted job, in words."""
        self._look()
        if not self._gone:
            return "its object is still there: a finalizer holds it"
        pods = patiently(lambda: [*self._pods(NODE), *self._pods(MASTER)])
        return f"its pods are still there: {', '.join(map(_whereabouts, pods))}" if pods else ""

    def _set_suspend(self, wish: bool) -> bool:
        job = self._steerable("suspended" if wish else "resumed")
        if job.spec.suspend is wish:
            return False
        self._patch({"spec": {"suspend": wish}})
        return True

    def _steerable(self, what: str) -> ElasticJob:
        self._look()
        if self._gone:
            raise NoSuchJob(f"the job '{self.name}' was deleted")
        if "deletionTimestamp" in self._raw["metadata"]:
            raise NotNow(f"the job is being deleted; it cannot be {what} any more")
        if is_over(self._raw):
            raise NotNow(f"the job is over; it cannot be {what} any more")
        job = job_in(self._raw)
        if job is None:
            raise NotNow(
                f"the manifest of job '{self.name}' has problems, so it cannot be {what}; "
                f"see 'resile describe {self.name}{self._cluster.flags(self.namespace)}'"
            )
        return job

    def _patch(self, body: Mapping[str, Any], *, subresource: str = "") -> None:
        self._cluster.ask(
            self._cluster.client.patch(
                ELASTIC_JOBS,
                self.name,
                body,
                namespace=self.namespace,
                subresource=subresource,
            )
        )

    # --- asking -----------------------------------------------------------------------------

    def _look(self, *, within: float = PATIENCE) -> None:
        if self._gone:
            return
        client = self._cluster.client
        try:
            raw = patiently(
                lambda: self._cluster.ask(
                    client.get(ELASTIC_JOBS, self.name, self.namespace), within=within
                ),
                within=within,
            )
        except NotFound:
            self._gone = True
            return
        if raw["metadata"]["uid"] != self._uid:
            self._gone = True  # another job has its name now
        else:
            self._raw = raw

    def _pods(self, component: str) -> list[KubeObject]:
        return self._cluster.ask(
            job_pods(
                self._cluster.client,
                self.namespace,
                self.name,
                uid=self._uid,
                component=component,
            )
        )


async def _next_of(batches: AsyncGenerator[Batch, None]) -> Batch | None:
    return await anext(batches, None)


async def _end(batches: AsyncGenerator[Batch, None]) -> None:
    await batches.aclose()


def _whereabouts(pod: KubeObject) -> str:
    name, machine = pod["metadata"]["name"], pod.get("spec", {}).get("nodeName")
    return f"{name} on {machine}" if machine else name
