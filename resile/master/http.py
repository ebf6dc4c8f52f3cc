"""What people and tools ask a master over plain HTTP, on the port the agents use.

Everything but ``/healthz`` needs the job's token. Answers are JSON, ``/metrics`` is Prometheus'.
"""

from __future__ import annotations

import time

import msgspec
from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from resile.master.records import EventRecord, RoundPhase
from resile.master.service import MasterService
from resile.wire.messages import FailureReport, Progress

VIEW = web.AppKey("service", MasterService)


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """A node as status shows it."""

    id: int
    name: str
    host: str
    pid: int
    role: str
    rank: int | None
    state: str
    connected: bool
    workers: int
    progress: Progress | None


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """The job as status shows it."""

    job: str
    phase: str
    round: int
    reason: str
    min_nodes: int
    max_nodes: int
    world_size: int
    restarts: int
    max_restarts: int
    step: int | None
    nodes: list[NodeView]
    report: FailureReport | None


def add_routes(app: web.Application, service: MasterService) -> None:
    """Serve all of this on ``app``."""
    app[VIEW] = service
    app.router.add_get("/healthz", _health)
    app.router.add_get("/v1/status", _status)
    app.router.add_get("/v1/events", _events)
    app.router.add_post("/v1/stop", _stop)
    app.router.add_post("/v1/nodes/{node:\\d+}/drain", _drain)
    app.router.add_get("/metrics", _metrics)


def view(service: MasterService) -> JobView:
    """What there is to see now."""
    membership = service.membership
    members = set(membership.round.members)
    nodes = []
    for node in membership.roster:
        info = node.record.info
        waiting = node.id not in members and membership.round.phase is not RoundPhase.GATHERING
        nodes.append(
            NodeView(
                id=node.id,
                name=info.name,
                host=info.host,
                pid=info.pid,
                role=info.role,
                rank=node.record.slot,
                state="spare" if waiting else node.state.value,
                connected=node.connected,
                workers=info.nproc,
                progress=node.progress,
            )
        )
    steps = [n.progress.step for n in nodes if n.progress and n.progress.step is not None]
    outcome = membership.job.outcome
    return JobView(
        job=membership.job.job,
        phase=outcome.value if outcome else membership.round.phase.value,
        round=membership.round.number,
        reason=membership.job.reason if outcome else membership.round.record.reason,
        min_nodes=membership.elasticity.min_nodes,
        max_nodes=membership.elasticity.max_nodes,
        world_size=membership.round.world_size,
        restarts=membership.job.restarts,
        max_restarts=membership.elasticity.max_restarts,
        step=max(steps, default=None),
        nodes=nodes,
        report=membership.job.report,
    )


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


async def _health(_request: web.Request) -> web.Response:
    return _json({"ok": True})


async def _status(request: web.Request) -> web.Response:
    return _json(view(request.app[VIEW]))


async def _events(request: web.Request) -> web.Response:
    since = request.query.get("since", "0")
    if not since.isdigit():
        raise web.HTTPBadRequest(text="since: a sequence number is wanted")
    events: list[EventRecord] = request.app[VIEW].membership.journal.events
    return _json([event for event in events if event.seq > int(since)])


async def _stop(request: web.Request) -> web.Response:
    service = request.app[VIEW]
    service.post(lambda now: service.membership.stop("stopped by a user", now=now))
    return _json({"accepted": True})


async def _drain(request: web.Request) -> web.Response:
    service = request.app[VIEW]
    node = int(request.match_info["node"])
    if node not in service.membership.roster:
        raise web.HTTPNotFound(text=f"there is no node {node}")

    def drain(_now: float) -> None:
        service.membership.drain(node, "asked to leave by a user")

    service.post(drain)
    return _json({"accepted": True})


async def _metrics(request: web.Request) -> web.Response:
    shown = view(request.app[VIEW])
    registry = CollectorRegistry()

    def gauge(name: str, help_text: str, value: float) -> None:
        Gauge(f"resile_{name}", help_text, registry=registry).set(value)

    gauge("round", "Number of the latest round", shown.round)
    gauge("world_size", "Workers in the latest round", shown.world_size)
    gauge("nodes", "Nodes in the job", len(shown.nodes))
    gauge("restarts", "Rounds broken by a worker's own failure", shown.restarts)
    gauge("running", "1 while a round runs", float(shown.phase == RoundPhase.RUNNING.value))
    gauge("step", "Highest step reported", shown.step if shown.step is not None else -1)
    gauge("time_seconds", "The master's clock", time.time())
    return web.Response(
        body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST}
    )
