"""A job of a cluster: its ElasticJob object in the API server, its pods and their logs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from resile.client.cluster.cluster import Cluster
from resile.client.cluster.event_stream import EventStream
from resile.client.cluster.job_object import (
    is_over,
    parse_job,
    parse_status,
    phase_of,
    status_is_stale,
    view_of,
)
from resile.client.cluster.pod_logs import PodLogs, has_begun, job_pods, node_views
from resile.client.cluster.retry import TIMEOUT, retry_unavailable
from resile.client.cluster.startup_progress import StartupProgress, master_line, startup_progress
from resile.client.errors import InvalidState, NoSuchJob
from resile.client.job import DELETED, Batch, NodeFilter, Warn, all_nodes, no_warning
from resile.job.naming import token_secret_name
from resile.job.spec.job import ElasticJob
from resile.job.training import NodeView
from resile.job.view import JobView, ended_view
from resile.kube.errors import Conflict, Forbidden, NotFound
from resile.kube.resources import ELASTIC_JOBS, SECRETS, KubeObject, key_of
from resile.operator.build.labels import MASTER, NODE
from resile.operator.build.master import read_secret
from resile.wire.auth import Scope, Tokens
from resile.wire.views import EventView

__all__ = ["ClusterJob"]

POLL = 0.5
"""Seconds between two polls while waiting: short for a person, long for a server."""

WARN_AFTER = 10.0
"""Seconds that the end of a job may take before a warning: most nodes save and stop within
them."""


class ClusterJob:
    """A job, running or not. ``raw``: its object, as last read from the API server."""

    platform = "kubernetes"
    poll_interval = POLL

    def __init__(self, cluster: Cluster, raw: KubeObject) -> None:
        self._cluster = cluster
        self.namespace, self.name = key_of(raw)
        self._uid: str = raw["metadata"]["uid"]
        self._raw = raw
        self._gone = False
        self._events = EventStream(cluster.client, raw)

    def __repr__(self) -> str:
        return f"<job {self.name} in namespace {self.namespace} of {self._cluster.name}>"

    # --- reading ----------------------------------------------------------------------------

    async def running(self) -> bool:
        """Return whether it still exists and is not over."""
        await self._look()
        return not self._gone and not is_over(self._raw)

    @property
    def status_is_stale(self) -> bool:
        """True if the operator had not seen the current manifest when last read."""
        return status_is_stale(self._raw)

    @property
    def unseen(self) -> bool:
        """True if no operator had seen the job at all, or not its current manifest."""
        return not self._gone and (parse_status(self._raw) is None or self.status_is_stale)

    async def view(self, *, within: float | None = None) -> JobView:
        """Return the full view of the job; the last one if it was deleted.

        ``within``: seconds for which to retry while the API server is unavailable.
        """
        await self._look(within=TIMEOUT if within is None else within)
        drawn = view_of(self._raw, now=time.time())
        return ended_view(drawn, DELETED) if self._gone else drawn

    async def phase(self, _view: JobView | None = None) -> str:
        """Return the job's state in one word."""
        if self._gone:
            return DELETED
        return phase_of(self._raw)

    def where(self) -> dict[str, str]:
        """Return where the job is, as named facts for a person."""
        return {"Namespace": self.namespace, "Cluster": self._cluster.name}

    async def events(self, *, since: int = 0, wait: float = 0.0) -> list[EventView]:
        """Return what happened after event ``since``; wait up to ``wait`` seconds for the first."""
        return await self._events.events(since=since, wait=wait)

    async def log_nodes(self) -> list[NodeView]:
        """Return the nodes that have output, or may have some later."""
        return [node for _, node in node_views(await self._pods(NODE))]

    def lines(
        self,
        wanted: NodeFilter = all_nodes,
        *,
        tail: int | None = None,
        follow: bool = False,
        warn: Warn = no_warning,
    ) -> AsyncGenerator[Batch, None]:
        """Yield the output of nodes. With ``follow`` until the job is over."""
        return self._lines(NODE, wanted, tail=tail, follow=follow, warn=warn)

    def master_lines(
        self, *, tail: int | None = None, follow: bool = False, warn: Warn = no_warning
    ) -> AsyncGenerator[Batch, None]:
        """Yield the output of its master; the log is removed with its pod."""
        return self._lines(MASTER, all_nodes, tail=tail, follow=follow, warn=warn)

    def _lines(
        self,
        component: str,
        wanted: NodeFilter,
        *,
        tail: int | None,
        follow: bool,
        warn: Warn,
    ) -> AsyncGenerator[Batch, None]:
        logs = PodLogs(
            self._cluster.client,
            (self.namespace, self.name),
            uid=self._uid,
            component=component,
            wanted=wanted,
            tail=tail,
            warn=warn,
        )
        return logs.follow() if follow else logs.so_far()

    async def master_trouble(self) -> str:
        """Return why its master prints nothing, in a sentence; empty if nothing is wrong."""
        status, pods = (await self.view()).status, await self._pods(MASTER)
        why = "" if status is None else status.master_problem
        if pods:
            begun = any(has_begun(pod) for pod in pods)
            return "" if begun else master_line(pods, why)
        message = f"job '{self.name}' has no master at the moment"
        return f"{message}: {why}" if why else f"{message} ({await self.phase()})"

    async def startup_progress(self) -> StartupProgress:
        """Return the progress of the job's start."""
        view = await self.view()
        if self._gone:
            raise NoSuchJob(f"the job '{self.name}' was deleted")
        try:
            masters = await self._pods(MASTER)
        except Forbidden:
            masters = None  # the job's status says what matters
        return startup_progress(view, masters=masters, stale=self.status_is_stale)

    async def has_nodes(self) -> bool:
        """Return whether any pod of a node exists; if pods may not be listed, by the status."""
        try:
            return bool(await self._pods(NODE))
        except Forbidden:
            status = parse_status(self._raw)
            return status is None or any(role.active for role in status.roles.values())

    # --- changing ---------------------------------------------------------------------------

    async def scale(self, sizes: Mapping[str, int]) -> None:
        """Ask for other sizes, by role; raises InvalidState for one that the job cannot have."""
        job = await self._steerable("scaled")
        if problem := job.spec.why_not_sizes(sizes):
            raise InvalidState(problem)
        scaled = job.spec.scaled_role()
        roles = {
            role: {"replicas": {"wanted": size}}
            for role, size in sizes.items()
            if role != scaled and not isinstance(job.spec.roles[role].replicas, int)
        }
        replicas = {} if scaled is None or scaled not in sizes else {"replicas": sizes[scaled]}
        if roles:  # all in one request: all of them or none
            await self._patch({"spec": {"roles": roles, **replicas}})
        elif replicas:
            await self._patch({"spec": replicas}, subresource="scale")

    async def suspend(self) -> bool:
        """Stop all nodes and keep the job; False if it is suspended already."""
        return await self._set_suspend(True)

    async def resume(self) -> bool:
        """Continue a suspended job; False if it is not suspended."""
        return await self._set_suspend(False)

    async def delete(self) -> None:
        """Request its deletion. Its pods are deleted with it, after their grace period."""
        client = self._cluster.client
        try:
            await client.delete(ELASTIC_JOBS, self.name, self.namespace, uid=self._uid)
        except (NotFound, Conflict):
            self._gone = True

    async def gone(self, *, wait: bool, warn: Warn = no_warning) -> bool:
        """After :meth:`delete`: return whether nothing of it is left; ``wait``: wait for that.

        ``warn`` is called once with what delays it. Raises Forbidden if the job is gone and its
        pods may not be listed.
        """
        since, warned = time.monotonic(), False
        while wait and (left := await self._left()):
            if not warned and time.monotonic() > since + WARN_AFTER:
                warned = True
                warn(left)
            await asyncio.sleep(POLL)
        return wait

    async def token(self, scope: Scope) -> str:
        """Return the job's token of that scope; needs permission to read its Secret."""
        job = await self._steerable("asked for its token")
        name = token_secret_name(job)
        found = await self._cluster.client.get(SECRETS, name, self.namespace)
        try:
            return Tokens(read_secret(found).token).by_scope[scope]
        except ValueError as error:
            raise InvalidState(f"the Secret {name} cannot be used: {error}") from None

    async def aclose(self) -> None:
        """Close connections to the cluster."""
        await self._cluster.aclose()

    async def _left(self) -> str:
        """Return what still exists of a deleted job, in words."""
        await self._look()
        if not self._gone:
            return "its object is still there: a finalizer holds it"
        pods = [*await self._pods(NODE), *await self._pods(MASTER)]
        return f"its pods are still there: {', '.join(map(_whereabouts, pods))}" if pods else ""

    async def _set_suspend(self, suspend: bool) -> bool:
        job = await self._steerable("suspended" if suspend else "resumed")
        if job.spec.suspend is suspend:
            return False
        await self._patch({"spec": {"suspend": suspend}})
        return True

    async def _steerable(self, what: str) -> ElasticJob:
        await self._look()
        if self._gone:
            raise NoSuchJob(f"the job '{self.name}' was deleted")
        if "deletionTimestamp" in self._raw["metadata"]:
            raise InvalidState(f"the job is being deleted; it cannot be {what} any more")
        if is_over(self._raw):
            raise InvalidState(f"the job is over; it cannot be {what} any more")
        job = parse_job(self._raw)
        if job is None:
            raise InvalidState(
                f"the manifest of job '{self.name}' has problems, so it cannot be {what}; "
                f"see 'resile describe {self.name}{self._cluster.flags(self.namespace)}'"
            )
        return job

    async def _patch(self, body: Mapping[str, Any], *, subresource: str = "") -> None:
        await self._cluster.client.patch(
            ELASTIC_JOBS, self.name, body, namespace=self.namespace, subresource=subresource
        )

    # --- requests ---------------------------------------------------------------------------

    async def _look(self, *, within: float = TIMEOUT) -> None:
        if self._gone:
            return
        client = self._cluster.client
        try:
            raw = await retry_unavailable(
                lambda: self._cluster.hurried(
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

    async def _pods(self, component: str) -> list[KubeObject]:
        return await retry_unavailable(
            lambda: job_pods(
                self._cluster.client,
                self.namespace,
                self.name,
                uid=self._uid,
                component=component,
            )
        )


def _whereabouts(pod: KubeObject) -> str:
    name, machine = pod["metadata"]["name"], pod.get("spec", {}).get("nodeName")
    return f"{name} on {machine}" if machine else name
