"""The output of a job's nodes, read from their pods once or followed.

Following looks for new pods every second, so a pod that replaces another is read from its first
line. A stream that breaks (an API server that is restarted, an unavailable kubelet) is resumed
where it broke off; only a pod that has ended or is gone ends it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING

from resile.client.cluster.job_object import is_over
from resile.client.cluster.log_position import LogPosition
from resile.client.job import Batch, NodeFilter, Warn, all_nodes
from resile.job.training import NodeView
from resile.kube.errors import ApiError, Forbidden, KubeError, NotFound
from resile.kube.resources import ELASTIC_JOBS, PODS, Key, KubeObject
from resile.operator.build.labels import (
    COMPONENT,
    JOB,
    MASTER,
    NODE,
    main_container_of,
    node_of,
)
from resile.operator.observe.nodes import owned_by

if TYPE_CHECKING:
    from resile.kube.client import KubeClient

__all__ = ["PodLogs", "has_begun", "job_pods", "node_views"]

LOOK = 1.0
"""Seconds between two checks for new pods: what they print meanwhile is only late, not lost."""

LAST_WORDS = 5.0
"""Seconds to wait, once the job is over, for streams of pods that are being terminated."""

WAITING = 64
"""Maximum number of batches waiting to be printed; then reading pauses."""

ENDED = frozenset({"Succeeded", "Failed"})

NO_LOG = (
    b"unable to retrieve container logs for ",
    b"rpc error: code = NotFound desc = an error occurred when try to find container ",
)
"""A kubelet's messages, in place of a log or at its end, that the container is gone already."""


class _OutputGone(Exception):
    """The container was removed, and its output with it."""


class _NameTakenOver(Exception):
    """Another pod has the name now: the output of the earlier one is gone."""


class PodLogs:
    """The output of the nodes of a job that ``wanted`` selects, or of its master."""

    def __init__(
        self,
        client: KubeClient,
        key: Key,
        *,
        uid: str,
        component: str = NODE,
        wanted: NodeFilter = all_nodes,
        tail: int | None,
        warn: Warn,
    ) -> None:
        """``tail``: only so many lines of the output that exists at first."""
        self._client = client
        self._namespace, self._job = key
        self._uid = uid
        self._component = component
        self._wanted = wanted
        self._tail = tail
        self._warn = warn
        self._batches: asyncio.Queue[Batch | None] = asyncio.Queue(WAITING)
        self._readers: dict[str, asyncio.Task[None]] = {}
        """Reader tasks by pod uid: a replacement may have its predecessor's name."""
        self._output_gone: set[str] = set()

    async def so_far(self) -> AsyncGenerator[Batch, None]:
        """Yield the output so far, one pod after another."""
        for pod in await self._pods():
            if has_begun(pod):
                try:
                    async for batch in self._read(pod):
                        yield batch
                except NotFound:
                    continue
                except KubeError as error:
                    self._complain(pod, error)

    async def follow(self) -> AsyncGenerator[Batch, None]:
        """Yield the output so far and what follows, until the job is over."""
        looking = asyncio.create_task(self._look())
        try:
            while (batch := await self._batches.get()) is not None:
                yield batch
            await looking
        finally:
            for task in (looking, *self._readers.values()):
                task.cancel()
            await asyncio.gather(looking, *self._readers.values(), return_exceptions=True)

    # --- finding pods -----------------------------------------------------------------------

    async def _pods(self) -> list[KubeObject]:
        pods = await job_pods(
            self._client, self._namespace, self._job, uid=self._uid, component=self._component
        )
        chosen = [(pod, node) for pod, node in node_views(pods) if self._wanted(node)]
        return [pod for pod, _ in chosen]

    async def _look(self) -> None:
        try:
            over, tail = False, self._tail
            while not over:
                over = await self._begin_with_new(tail)
                tail = None
                await asyncio.sleep(0 if over else LOOK)
            if self._readers:
                await asyncio.wait(self._readers.values(), timeout=LAST_WORDS)
        finally:
            await self._batches.put(None)

    async def _begin_with_new(self, tail: int | None) -> bool:
        """Start to read pods that are new; return whether the job is over."""
        try:
            over = await self._is_over()
            pods = await self._pods()
        except (Forbidden, NotFound):
            raise
        except KubeError:
            return False  # retried in a second
        for pod in pods:
            uid = pod["metadata"]["uid"]
            if uid not in self._readers and has_begun(pod):
                self._readers[uid] = asyncio.create_task(self._follow_one(pod, tail))
        return over

    async def _is_over(self) -> bool:
        try:
            raw = await self._client.get(ELASTIC_JOBS, self._job, self._namespace)
        except NotFound:
            return True
        return raw["metadata"]["uid"] != self._uid or is_over(raw)

    # --- one pod ----------------------------------------------------------------------------

    async def _read(self, pod: KubeObject) -> AsyncGenerator[Batch, None]:
        name = pod["metadata"]["name"]
        pieces = self._client.logs(
            name, self._namespace, container=main_container_of(pod), tail=self._tail
        )
        try:
            async for lines in _whole_lines(pieces, ended=True):
                yield [(name, _text(line)) for line in lines]
        except _OutputGone:
            self._warn_output_gone(name)

    async def _follow_one(self, pod: KubeObject, tail: int | None) -> None:
        position, complained = LogPosition(), False
        while True:
            try:
                ended = await self._has_ended(pod)
                await self._stream(pod, position, tail=tail, ended=ended)
                tail, broken = None, False
            except (NotFound, _NameTakenOver):
                return
            except KubeError as error:
                broken = True
                if isinstance(error, ApiError) and error.status != 400 and not complained:
                    self._complain(pod, error)
                    complained = True
            if ended and not broken:
                return
            await asyncio.sleep(LOOK)

    async def _stream(
        self, pod: KubeObject, position: LogPosition, *, tail: int | None, ended: bool
    ) -> None:
        """Queue new lines as they arrive; ``ended``: the pod writes no more."""
        name = pod["metadata"]["name"]
        position.rewind()
        pieces = self._client.logs(
            name,
            self._namespace,
            container=main_container_of(pod),
            follow=True,
            tail=tail if position.since is None else None,
            since=position.since,
            timestamps=True,
        )
        try:
            async for lines in _whole_lines(pieces, ended=ended):
                texts = [text for line in lines if (text := position.fresh(line)) is not None]
                if texts:
                    await self._batches.put([(name, _text(text)) for text in texts])
        except _OutputGone:
            if position.since is None:
                self._warn_output_gone(name)

    async def _has_ended(self, pod: KubeObject) -> bool:
        """Return whether the pod has ended; if so, a log that is read after this is complete."""
        try:
            found = await self._client.get(PODS, pod["metadata"]["name"], self._namespace)
        except NotFound:
            return True
        except KubeError:
            return False
        if found["metadata"]["uid"] != pod["metadata"]["uid"]:
            raise _NameTakenOver
        return (found.get("status") or {}).get("phase") in ENDED

    def _warn_output_gone(self, name: str) -> None:
        if name not in self._output_gone:
            self._output_gone.add(name)
            self._warn(f"the output of {name} is gone: its container was removed")

    def _complain(self, pod: KubeObject, error: KubeError) -> None:
        self._warn(f"the log of {pod['metadata']['name']} cannot be read: {error}")


async def job_pods(
    client: KubeClient, namespace: str, job: str, *, uid: str, component: str = NODE
) -> list[KubeObject]:
    """Return a job's pods, without those of an earlier job of its name."""
    labels = f"{JOB}={job},{COMPONENT}={component}"
    found = await client.list(PODS, namespace=namespace, labels=labels)
    return [pod for pod in found.items if owned_by(uid, pod)]


def node_views(pods: list[KubeObject]) -> list[tuple[KubeObject, NodeView]]:
    """Return the pods of nodes and masters, each with its view, sorted by name."""
    seen = [(pod, known) for pod in pods if (known := _who(pod)) is not None]
    return sorted(seen, key=lambda one: _natural(one[1].name))


def _who(pod: KubeObject) -> NodeView | None:
    metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase") or "Pending"
    if metadata.get("labels", {}).get(COMPONENT) == MASTER:
        return NodeView(name=metadata["name"], role=MASTER, rank=None, phase=phase)
    node = node_of(pod)
    if node is None:
        return None
    return NodeView(name=node.name, role=node.role, rank=node.rank, id=node.id, phase=phase)


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that compares numbers as numbers: worker-9 comes before worker-10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def has_begun(pod: KubeObject) -> bool:
    """Return whether its main container ever ran; until then it has no log."""
    status, main = pod.get("status") or {}, main_container_of(pod)
    for one in status.get("containerStatuses") or ():
        if one.get("name") == main:
            state = one.get("state") or {}
            return bool(state.get("running") or state.get("terminated"))
    return False


async def _whole_lines(
    pieces: AsyncGenerator[bytes, None], *, ended: bool
) -> AsyncGenerator[list[bytes], None]:
    """Yield the lines of a log without a kubelet's own; raises _OutputGone if there are no others.

    A kubelet's line is the whole log, or is at its end without a newline: a program may print the
    same text. ``ended``: a last line without newline is complete; else its rest is still to come.
    """
    rest, first = b"", True
    async with aclosing(pieces):
        async for piece in pieces:
            rest += piece
            if first and rest.startswith(NO_LOG) and rest.find(b"\n") in (-1, len(rest) - 1):
                continue  # it may be the whole log
            *lines, rest = rest.split(b"\n")
            if lines:
                first = False
                yield lines
    if not rest.startswith(NO_LOG):
        if rest and ended:
            yield [rest]
    elif first:
        raise _OutputGone


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
