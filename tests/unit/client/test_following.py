"""Following a pod's log over HTTP while connections break: every line once.

The test server serves a log like an API server and a kubelet: from whole seconds on, each line
after its timestamp. Real ones are followed in tests/kube/cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from resile.client.cluster import pod_logs
from resile.client.cluster.pod_logs import PodLogs
from resile.job.node import Node
from resile.kube.client import KubeClient
from resile.operator.build.labels import node_labels

NAME, UID = "digits-worker-0", "u"
BEGIN = datetime(2024, 3, 9, 23, 59, 58, tzinfo=timezone.utc)
LINES = [f"line {number}" for number in range(40)]


@dataclass
class Kubelet:
    """A pod that printed ten lines a second, and whose log breaks off after this many bytes."""

    breaks: list[int]
    hangs_up: bool = True
    """Otherwise the log ends there as if it were complete, as when a kubelet is restarted."""
    asked: list[dict[str, str]] = field(default_factory=list)
    last_line_is_open: bool = False

    def log(self, since: str | None) -> bytes:
        first = datetime.strptime(since, "%Y-%m-%dT%H:%M:%S%z") if since else BEGIN
        times = [BEGIN + timedelta(milliseconds=100 * number) for number in range(len(LINES))]
        lines = [
            f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond:06}000Z {line}\n"
            for time, line in zip(times, LINES, strict=True)
            if time >= first
        ]
        text = "".join(lines)
        return (text[:-1] if self.last_line_is_open else text).encode()

    @property
    def over(self) -> bool:
        return not self.breaks

    async def pod_log(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(dict(request.query))
        content, answer = self.log(request.query.get("sinceTime")), web.StreamResponse()
        await answer.prepare(request)
        if self.breaks:
            await answer.write(content[: self.breaks.pop(0)])
            if self.hangs_up and request.transport is not None:
                request.transport.close()
        else:
            await answer.write(content)
        return answer

    async def pod(self, _request: web.Request) -> web.Response:
        return web.json_response(self._pod())

    async def pods(self, _request: web.Request) -> web.Response:
        return web.json_response({"items": [self._pod()], "metadata": {"resourceVersion": "1"}})

    async def job(self, _request: web.Request) -> web.Response:
        phase = "Succeeded" if self.over else "Running"
        return web.json_response({"metadata": {"uid": UID}, "status": {"phase": phase}})

    def _pod(self) -> dict[str, Any]:
        labels = node_labels("digits", Node(role="worker", rank=0, id=0, name=NAME))
        owners = [{"controller": True, "uid": UID, "kind": "ElasticJob"}]
        state = {"name": "main", "state": {"running": {"startedAt": "now"}}}
        phase = "Succeeded" if self.over else "Running"
        return {
            "metadata": {
                "name": NAME,
                "uid": "of-the-pod",
                "labels": labels,
                "ownerReferences": owners,
            },
            "spec": {"containers": [{"name": "main"}]},
            "status": {"phase": phase, "containerStatuses": [state]},
        }


@asynccontextmanager
async def connected(kubelet: Kubelet, folder: Path) -> AsyncIterator[KubeClient]:
    app = web.Application()
    pods, jobs = "/api/v1/namespaces/n/pods", "/apis/resile.dev/v1alpha1/namespaces/n/elasticjobs"
    app.router.add_get(pods, kubelet.pods)
    app.router.add_get(f"{pods}/{NAME}", kubelet.pod)
    app.router.add_get(f"{pods}/{NAME}/log", kubelet.pod_log)
    app.router.add_get(f"{jobs}/digits", kubelet.job)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "namespace": "n"}}],
        "current-context": "c",
    }
    (folder / "config").write_text(yaml.safe_dump(config))
    try:
        async with KubeClient.connect(kubeconfig=str(folder / "config")) as client:
            yield client
    finally:
        await runner.cleanup()


async def followed(kubelet: Kubelet, folder: Path, *, tail: int | None = None) -> list[str]:
    warnings: list[str] = []
    async with connected(kubelet, folder) as client:
        logs = PodLogs(client, ("n", "digits"), uid=UID, tail=tail, warn=warnings.append)
        lines = [text async for batch in logs.follow() for name, text in batch if name == NAME]
    assert not warnings
    return lines


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_logs, "LOOK", 0.05)


@pytest.mark.parametrize("hangs_up", [True, False])
@pytest.mark.parametrize("breaks", [[0], [5], [40, 45], [700, 3, 500], [10**6]])
async def test_each_line_is_told_once_wherever_the_log_broke_off(
    tmp_path: Path, breaks: list[int], hangs_up: bool
) -> None:
    kubelet = Kubelet(list(breaks), hangs_up=hangs_up)
    assert await asyncio.wait_for(followed(kubelet, tmp_path), 30) == LINES
    assert len(kubelet.asked) > len(breaks)


async def test_a_last_line_without_its_end_is_told_when_the_pod_has_ended(tmp_path: Path) -> None:
    kubelet = Kubelet([10**6], last_line_is_open=True)
    assert await asyncio.wait_for(followed(kubelet, tmp_path), 30) == LINES


async def test_a_reader_that_comes_again_asks_for_what_it_missed_alone(tmp_path: Path) -> None:
    kubelet = Kubelet([38 * 25])
    assert await asyncio.wait_for(followed(kubelet, tmp_path, tail=1000), 30) == LINES
    first, *_, last = kubelet.asked
    assert (first.get("sinceTime"), first["tailLines"]) == (None, "1000")
    assert last["sinceTime"] == "2024-03-10T00:00:00Z"
    assert "tailLines" not in last, "more lines than that may have been missed"
