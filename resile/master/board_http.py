"""``/v1/job`` and what steers it (``scale``, ``suspend``, ``resume``, ``usage``), over plain HTTP;
and ``/v1/addresses`` of its nodes.

A change is answered when it is kept, never before. Refusals are JSON with a sentence: 400 for what
cannot be read, 422 for what the job cannot be, 409 for what it cannot be now, 404 for what nobody
has told.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import wraps

from aiohttp import web

from resile.decoding import DecodeError
from resile.master.answers import json_answer, read_body, refusal
from resile.master.board import BoardError, Unusable, WrongSize
from resile.master.service import MasterService
from resile.master.view import trainings
from resile.wire.messages import Usage
from resile.wire.views import Publication

Route = Callable[[web.Request], Awaitable[web.Response]]

SERVICE = web.AppKey("board_service", MasterService)


def add_board_routes(app: web.Application, service: MasterService) -> None:
    """Serve all of this on ``app``."""
    app[SERVICE] = service
    app.router.add_get("/v1/job", _view)
    app.router.add_put("/v1/job", _with_reasons(_publish))
    app.router.add_delete("/v1/job", _with_reasons(_delete))
    app.router.add_post("/v1/scale", _with_reasons(_scale))
    app.router.add_post("/v1/suspend", _with_reasons(_suspend))
    app.router.add_post("/v1/resume", _with_reasons(_resume))
    app.router.add_put("/v1/usage", _with_reasons(_usage))
    app.router.add_get("/v1/addresses", _addresses)


def _with_reasons(route: Route) -> Route:
    """Turn what a route raises into a refusal."""

    @wraps(route)
    async def served(request: web.Request) -> web.Response:
        try:
            return await route(request)
        except (WrongSize, Unusable) as error:
            return refusal(422, str(error))
        except BoardError as error:
            return refusal(409, str(error))
        except DecodeError as error:
            return refusal(400, f"the request cannot be read: {error}")

    return served


async def _view(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    return json_answer(service.board.view(trainings(service), now=time.time()))


async def _publish(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    publication = await read_body(request, Publication)
    await service.carry_out(lambda now: service.board.publish(publication, now=now))
    return json_answer({"accepted": True})


async def _scale(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    sizes = await read_body(request, dict[str, int])
    await service.carry_out(lambda now: service.board.scale(sizes, now=now))
    return json_answer({"accepted": True, "sizes": sizes})


async def _suspend(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    await service.carry_out(lambda now: service.board.suspend(True, now=now))
    return json_answer({"accepted": True})


async def _resume(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    await service.carry_out(lambda now: service.board.suspend(False, now=now))
    return json_answer({"accepted": True})


async def _delete(request: web.Request) -> web.Response:
    service = request.app[SERVICE]
    await service.carry_out(lambda now: service.board.delete(now=now))
    return json_answer({"accepted": True})


async def _addresses(request: web.Request) -> web.Response:
    addresses = request.app[SERVICE].board.addresses
    if addresses is None:
        return refusal(404, "nobody has published addresses of this job's nodes")
    return json_answer(addresses)


async def _usage(request: web.Request) -> web.Response:
    request.app[SERVICE].board.usage = await read_body(request, dict[str, Usage])
    return json_answer({"accepted": True})
