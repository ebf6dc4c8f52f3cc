"""An operator's HTTP endpoints."""

from __future__ import annotations

from pathlib import Path

from aiohttp import ClientSession

from resile.kube.client import KubeClient
from resile.kube.resources import PODS, Key
from resile.kube.runtime.election import LeaderElection
from resile.kube.runtime.events import EventRecorder
from resile.kube.runtime.reflector import Reflector
from resile.kube.runtime.workqueue import WorkQueue
from resile.operator.health import serve_health
from resile.operator.metrics import OperatorMetrics

NOWHERE = """
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
current-context: c
"""


async def _get(port: int, path: str) -> tuple[int, str]:
    async with (
        ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def test_who_answers_is_alive_and_who_meets_all_conditions_is_ready() -> None:
    synced = False
    ready = {"knows the cluster": lambda: synced, "leads or stands by": lambda: True}
    async with serve_health(lambda: b"", ready) as port:
        assert await _get(port, "/healthz") == (200, "ok\n")
        assert await _get(port, "/readyz") == (503, "not ready: knows the cluster\n")
        synced = True
        assert await _get(port, "/readyz") == (200, "ok\n")


async def test_metrics_tell_of_the_queue_the_watches_the_events_and_the_lead(
    tmp_path: Path,
) -> None:
    (tmp_path / "config").write_text(NOWHERE)
    metrics = OperatorMetrics()
    async with KubeClient.connect(kubeconfig=str(tmp_path / "config")) as client:
        queue: WorkQueue[Key] = WorkQueue(observer=metrics.queue)
        metrics.follow(
            queue=queue,
            reflectors=[Reflector(client, PODS, changed=lambda *_: None)],
            recorder=EventRecorder(client),
            election=LeaderElection(client, "lead", namespace="default"),
        )
        queue.add(("default", "a"))
        metrics.queue.handled(0.3)
        metrics.queue.failed()
        async with serve_health(metrics.text, {}) as port:
            status, text = await _get(port, "/metrics")
    assert status == 200
    lines = text.splitlines()
    for line in (
        "resile_operator_queue_depth 1.0",
        "resile_operator_leading 0.0",
        "resile_operator_events_dropped_total 0.0",
        'resile_operator_objects{kind="Pod"} 0.0',
        'resile_operator_lists_total{kind="Pod"} 0.0',
        "resile_operator_reconcile_errors_total 1.0",
        'resile_operator_reconcile_seconds_bucket{le="0.5"} 1.0',
    ):
        assert line in lines
