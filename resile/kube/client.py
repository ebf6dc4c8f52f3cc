"""The requests to a Kubernetes API server, with objects as plain dicts.

Objects are returned as the server sent them, decoded and otherwise unchanged. The generated types
of client libraries drop fields that are newer than they are, and would break the pods of users who
set them.

Nothing is retried here, because only the caller knows whether that is safe and how long it may
take. Every failure is one of :mod:`resile.kube.errors`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import Literal

from resile.kube.errors import Gone, error_from_status
from resile.kube.kubeconfig import ClusterConfig, find_cluster
from resile.kube.resources import PODS, KubeObject, Resource
from resile.kube.transport import REQUEST_TIMEOUT, Transport

__all__ = ["FIELD_OWNER", "KubeClient", "Listed", "PatchType", "Propagation"]

FIELD_OWNER = "resile"
"""The field manager of our writes. One for all, so that fields we stop applying are removed."""

PAGE = 500
"""Objects in a page of a list, as in kubectl: a page of pods stays below a few MB."""

SILENCE_MARGIN = 10.0
"""Seconds after a watch's timeout, at which the server ends it, until its connection is dead."""

PatchType = Literal["merge", "strategic", "json"]
Propagation = Literal["Background", "Foreground", "Orphan"]

CONTENT_TYPES: Mapping[PatchType, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}
APPLY = "application/apply-patch+yaml"
"""JSON is YAML."""


@dataclass(frozen=True)
class Listed:
    """All objects of a list, and the resourceVersion of the list."""

    items: list[KubeObject]
    resource_version: str


class KubeClient:
    """A client of one API server as one user. Use it as an async context manager, or ``aclose`` it.

    The default namespace is that of the context, except in ``list`` and ``watch``, where it is all
    namespaces.
    """

    def __init__(self, config: ClusterConfig, *, namespace: str | None = None) -> None:
        self.namespace: str = namespace or config.namespace
        self._transport = Transport(config, agent=FIELD_OWNER)

    @classmethod
    def connect(
        cls,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        namespace: str | None = None,
    ) -> KubeClient:
        """Return a client for the cluster that kubectl would use. Nothing is sent yet."""
        return cls(find_cluster(kubeconfig=kubeconfig, context=context), namespace=namespace)

    @property
    def server(self) -> str:
        """The API server's address."""
        return self._transport.server

    @property
    def awaited(self) -> str:
        """The server or credential plugin that a pending request waits for, in words."""
        return self._transport.awaited

    async def __aenter__(self) -> KubeClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def version(self) -> str:
        """Return the API server's version, such as v1.30.2."""
        return str((await self._transport.ask("GET", "/version")).get("gitVersion", "unknown"))

    async def list(
        self,
        kind: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        page: int = PAGE,
    ) -> Listed:
        """Return all objects that match both selectors, read in pages of at most ``page``.

        The server omits ``apiVersion`` and ``kind`` from the items of a list; they are added here,
        so that an object looks the same wherever it came from.
        """
        path = kind.collection(namespace)
        query = {"labelSelector": labels, "fieldSelector": fields, "limit": str(page)}
        answer = await self._transport.ask("GET", path, query=query)
        items = answer["items"]
        while token := answer["metadata"].get("continue"):
            try:
                query["continue"] = token
                answer = await self._transport.ask("GET", path, query=query)
            except Gone:
                # The list was compacted away between two pages: read it again in one piece.
                answer = await self._transport.ask(
                    "GET", path, query={**query, "continue": "", "limit": ""}
                )
                items = []
            items += answer["items"]
        for item in items:
            item.update(apiVersion=kind.api_version, kind=kind.kind)
        return Listed(items, answer["metadata"]["resourceVersion"])

    async def get(self, kind: Resource, name: str, namespace: str | None = None) -> KubeObject:
        """Get one object."""
        return await self._transport.ask("GET", self._path(kind, name, namespace))

    async def create(self, kind: Resource, obj: KubeObject, *, dry_run: bool = False) -> KubeObject:
        """Create an object that must not exist yet; ``dry_run``: only validate it."""
        path = kind.collection(self._namespace_of(obj))
        query = {"fieldManager": FIELD_OWNER, "dryRun": "All" if dry_run else ""}
        return await self._transport.ask("POST", path, query=query, body=_named(kind, obj))

    async def apply(
        self,
        kind: Resource,
        obj: KubeObject,
        *,
        owner: str = FIELD_OWNER,
        force: bool = True,
        dry_run: bool = False,
    ) -> KubeObject:
        """Server-side apply: create the object, or set the fields in ``obj``, as field owner.

        Fields that ``owner`` applied before and that are no longer in ``obj`` are removed. Without
        ``force`` a field that another owner holds at another value is a Conflict.
        """
        path = self._path(kind, obj["metadata"]["name"], self._namespace_of(obj))
        query = {
            "fieldManager": owner,
            "force": "true" if force else "",
            "dryRun": "All" if dry_run else "",
        }
        body = _named(kind, obj)
        return await self._transport.ask("PATCH", path, query=query, body=body, content=APPLY)

    async def patch(
        self,
        kind: Resource,
        name: str,
        body: object,
        *,
        namespace: str | None = None,
        subresource: str = "",
        type: PatchType = "merge",
    ) -> KubeObject:
        """Change parts of an existing object."""
        return await self._transport.ask(
            "PATCH",
            self._path(kind, name, namespace, subresource=subresource),
            query={"fieldManager": FIELD_OWNER},
            body=body,
            content=CONTENT_TYPES[type],
        )

    async def patch_status(
        self,
        kind: Resource,
        name: str,
        namespace: str | None = None,
        *,
        status: KubeObject,
        resource_version: str | None = None,
    ) -> KubeObject:
        """Change an object's status; Conflict if it is no longer at ``resource_version``.

        A merge patch: lists are replaced, an absent key is unchanged, and a key with the value None
        is removed.
        """
        body: KubeObject = {"status": status}
        if resource_version is not None:
            body["metadata"] = {"resourceVersion": resource_version}
        return await self.patch(kind, name, body, namespace=namespace, subresource="status")

    async def delete(
        self,
        kind: Resource,
        name: str,
        namespace: str | None = None,
        *,
        grace_seconds: int | None = None,
        uid: str | None = None,
        propagation: Propagation = "Background",
    ) -> None:
        """Delete an object. With ``uid``: Conflict if another object now has that name."""
        options: KubeObject = {"propagationPolicy": propagation}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        await self._transport.ask("DELETE", self._path(kind, name, namespace), body=options)

    async def watch(
        self,
        kind: Resource,
        *,
        namespace: str | None = None,
        labels: str = "",
        fields: str = "",
        resource_version: str,
        timeout_seconds: int,
        silence_margin: float = SILENCE_MARGIN,
    ) -> AsyncGenerator[tuple[str, KubeObject], None]:
        """Yield the events after ``resource_version``: ADDED, MODIFIED, DELETED or BOOKMARK.

        Ends when the server ends it, at the latest after ``timeout_seconds``. Raises Gone when the
        requested history is compacted away, and Unreachable when the server stays silent for
        ``silence_margin`` longer than it should have kept the watch open. A caller that stops
        earlier must close the generator (``contextlib.aclosing``): it holds a connection.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "labelSelector": labels,
            "fieldSelector": fields,
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
        }
        silence = timeout_seconds + silence_margin
        path = kind.collection(namespace)
        async with aclosing(self._transport.lines(path, query=query, silence=silence)) as lines:
            async for line in lines:
                event = self._transport.decoded(line)
                if event["type"] == "ERROR":
                    raise error_from_status(event["object"])
                yield event["type"], event["object"]

    async def logs(
        self,
        pod: str,
        namespace: str | None = None,
        *,
        container: str | None = None,
        follow: bool = False,
        tail: int | None = None,
        since: str | None = None,
        timestamps: bool = False,
        previous: bool = False,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the output of a container in chunks as they arrive; with ``follow`` until it ends.

        ``since``: only lines of that second (RFC 3339) and later. ``timestamps``: each line is
        preceded by the time at which it was written. A caller that stops earlier must close the
        generator, as for a watch.
        """
        query = {
            "container": container or "",
            "follow": "true" if follow else "",
            "tailLines": "" if tail is None else str(tail),
            "sinceTime": since or "",
            "timestamps": "true" if timestamps else "",
            "previous": "true" if previous else "",
        }
        path = self._path(PODS, pod, namespace, subresource="log")
        silence = None if follow else REQUEST_TIMEOUT
        async with aclosing(self._transport.stream(path, query=query, silence=silence)) as chunks:
            async for chunk in chunks:
                yield chunk

    def _path(
        self, kind: Resource, name: str, namespace: str | None, *, subresource: str = ""
    ) -> str:
        return kind.path(name, namespace=namespace or self.namespace, subresource=subresource)

    def _namespace_of(self, obj: KubeObject) -> str:
        return obj["metadata"].get("namespace") or self.namespace


def _named(kind: Resource, obj: KubeObject) -> KubeObject:
    return {**obj, "apiVersion": kind.api_version, "kind": kind.kind}
