"""The master's HTTP API, besides the agents' connections: the training of each group, events,
metrics, and the directive of the job's controller.
"""

from __future__ import annotations

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from resile.decoding import DecodeError
from resile.master.membership import Membership
from resile.master.metrics import metrics_text
from resile.master.records import MAIN
from resile.master.service import MasterService
from resile.master.training_view import training_view, trainings
from resile.wire.directive import Directive
from resile.wire.http_answers import BadQuery, EventQuery, json_answer, read_body, refusal

VIEW = web.AppKey("service", MasterService)


def add_routes(app: web.Application, service: MasterService) -> None:
    """Add the routes of this API to ``app``."""
    app[VIEW] = service
    app.router.add_get("/healthz", _health)
    app.router.add_get("/v1/status", _status)
    app.router.add_get("/v1/trainings", _trainings)
    app.router.add_get("/v1/events", _events)
    app.router.add_post("/v1/stop", _stop)
    app.router.add_post("/v1/nodes/{node:[0-9]{1,15}}/drain", _drain)
    app.router.add_get("/metrics", _metrics)
    app.router.add_put("/v1/directive", _directive)
    app.router.add_get("/v1/addresses", _addresses)


async def _health(_request: web.Request) -> web.Response:
    return json_answer({"ok": True})


def _group(request: web.Request) -> Membership | None:
    """Return the group of a request; the main one if none is named."""
    return request.app[VIEW].groups.get(request.query.get("group", MAIN))


def _no_group(request: web.Request) -> web.Response:
    return refusal(404, f"there is no group '{request.query['group']}'")


async def _status(request: web.Request) -> web.Response:
    group = _group(request)
    if group is None:
        return _no_group(request)
    return json_answer(training_view(request.app[VIEW], group))


async def _trainings(request: web.Request) -> web.Response:
    return json_answer(trainings(request.app[VIEW]))


async def _directive(request: web.Request) -> web.Response:
    """Store the directive, and answer only then."""
    try:
        directive = await read_body(request, Directive)
    except DecodeError as error:
        return refusal(400, f"the request cannot be read: {error}")
    await request.app[VIEW].follow(directive)
    return json_answer({"accepted": True})


async def _addresses(request: web.Request) -> web.Response:
    addresses = request.app[VIEW].addresses
    if addresses is None:
        return refusal(404, "no addresses of this job's nodes are known")
    return json_answer(addresses)


async def _events(request: web.Request) -> web.Response:
    try:
        asked = EventQuery.of(request)
    except BadQuery as error:
        return refusal(400, str(error))
    return json_answer(await request.app[VIEW].events_after(asked.since, timeout=asked.wait))


async def _stop(request: web.Request) -> web.Response:
    service = request.app[VIEW]
    service.post(lambda now: service.groups.stop("stopped by a user", now=now))
    return json_answer({"accepted": True})


async def _drain(request: web.Request) -> web.Response:
    service = request.app[VIEW]
    group = _group(request)
    if group is None:
        return _no_group(request)
    node = int(request.match_info["node"])
    if node not in group.nodes:
        return refusal(404, f"there is no node {node}")

    def drain(_now: float) -> None:
        group.drain(node, "asked to leave by a user")

    service.post(drain)
    return json_answer({"accepted": True})


async def _metrics(request: web.Request) -> web.Response:
    body = metrics_text(request.app[VIEW])
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
