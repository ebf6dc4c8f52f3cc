"""What people and tools ask a master over plain HTTP, on the port the agents use.

Everything but ``/healthz`` needs the job's token. Answers are JSON, ``/metrics`` is Prometheus'.
"""

from __future__ import annotations

import re

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from resile.master.answers import json_answer, refusal
from resile.master.board_http import add_board_routes
from resile.master.membership import Membership
from resile.master.metrics import metrics_text
from resile.master.records import MAIN
from resile.master.service import MasterService
from resile.master.view import training_view, trainings

VIEW = web.AppKey("service", MasterService)

LONGEST_WAIT = 60.0
"""Who waits for news longer has to ask again: an asker that is gone costs no more than that."""


def add_routes(app: web.Application, service: MasterService) -> None:
    """Serve all of this on ``app``."""
    app[VIEW] = service
    app.router.add_get("/healthz", _health)
    app.router.add_get("/v1/status", _status)
    app.router.add_get("/v1/trainings", _trainings)
    app.router.add_get("/v1/events", _events)
    app.router.add_post("/v1/stop", _stop)
    app.router.add_post("/v1/nodes/{node:[0-9]{1,15}}/drain", _drain)
    app.router.add_get("/metrics", _metrics)
    add_board_routes(app, service)


async def _health(_request: web.Request) -> web.Response:
    return json_answer({"ok": True})


def _group(request: web.Request) -> Membership | None:
    """The group that is asked about; the main one, if none is named."""
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


async def _events(request: web.Request) -> web.Response:
    since, wait = request.query.get("since", "0"), request.query.get("wait", "0")
    if not re.fullmatch("[0-9]{1,15}", since):
        return refusal(400, f"since: a sequence number is wanted, not '{since}'")
    if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", wait):
        return refusal(400, f"wait: a number of seconds is wanted, not '{wait}'")
    patience = min(float(wait), LONGEST_WAIT)
    return json_answer(await request.app[VIEW].events_after(int(since), patience=patience))


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
    if node not in group.roster:
        return refusal(404, f"there is no node {node}")

    def drain(_now: float) -> None:
        group.drain(node, "asked to leave by a user")

    service.post(drain)
    return json_answer({"accepted": True})


async def _metrics(request: web.Request) -> web.Response:
    body = metrics_text(request.app[VIEW])
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})
