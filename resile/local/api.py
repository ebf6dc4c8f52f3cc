"""The job API of `resile up`, over HTTP: view the job, read its logs, control it.

    GET    /v1/jobs                        all jobs of this `up`: one
    GET    /v1/jobs/NAME                   the job
    DELETE /v1/jobs/NAME                   end it
    GET    /v1/jobs/NAME/events            what happened; ?since=SEQ&wait=SECONDS
    GET    /v1/jobs/NAME/logs              the nodes that have output, with its size
    GET    /v1/jobs/NAME/logs/NODE         a chunk of a node's output; ?offset=BYTES
    POST   /v1/jobs/NAME/scale             {"ROLE": N}
    POST   /v1/jobs/NAME/suspend, /resume

A change is answered when it is stored, never before. Refusals are JSON with a sentence: 400 for a
request that cannot be read, 404 for what does not exist, 409 for what the job's state does not
allow, 422 for what the job cannot be. The Unix socket is guarded by the permissions of its file;
the loopback port, which other users of the machine can reach, needs the job's token.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Protocol

from aiohttp import web

from resile.decoding import DecodeError
from resile.job.view import JobView, document
from resile.local.api_socket import listening_socket
from resile.local.errors import LocalPlatformError
from resile.local.history import JobHistory
from resile.local.log_files import list_logs, read_piece
from resile.local.requests import InvalidRequest, JobRequestRefused, RequestBook
from resile.wire.auth_middleware import AuthMiddleware, unguarded_application
from resile.wire.http_answers import (
    BadQuery,
    EventQuery,
    byte_offset,
    json_answer,
    read_body,
    refusal,
)

__all__ = ["ApiPortUnusable", "ServedJob", "serving_port", "serving_socket"]

LOOPBACK = "127.0.0.1"

Route = Callable[[web.Request], Awaitable[web.Response]]


class ApiPortUnusable(LocalPlatformError):
    """The port of --api-port cannot be listened at."""


class ServedJob(Protocol):
    """The part of a job that the API needs."""

    name: str
    logs: Path
    history: JobHistory

    @property
    def requests(self) -> RequestBook:
        """The users' requests."""

    async def view(self) -> JobView:
        """Return the full view of the job."""


JOB: web.AppKey[ServedJob] = web.AppKey("job", ServedJob)


@asynccontextmanager
async def serving_socket(job: ServedJob, folder: Path) -> AsyncIterator[None]:
    """Serve the API on the Unix socket in the job's folder."""
    runner = AuthMiddleware.runner(_with_routes(unguarded_application(), job))
    await runner.setup()
    try:
        site = web.SockSite(runner, listening_socket(folder))
        await site.start()
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serving_port(job: ServedJob, port: int, *, token: str) -> AsyncIterator[int]:
    """Serve the API at a loopback port, 0 for any free one; raises ApiPortUnusable."""
    auth = AuthMiddleware(token)
    runner = auth.runner(_with_routes(auth.application(), job))
    await runner.setup()
    sweeper = asyncio.create_task(auth.sweep(runner))
    try:
        try:
            await web.TCPSite(runner, LOOPBACK, port).start()
        except OSError as error:
            raise ApiPortUnusable(f"--api-port {port}: {error.strerror}") from None
        yield int(runner.addresses[0][1])
    finally:
        sweeper.cancel()
        await asyncio.gather(sweeper, return_exceptions=True)
        await runner.cleanup()


def _with_routes(app: web.Application, job: ServedJob) -> web.Application:
    app[JOB] = job
    one = "/v1/jobs/{name}"
    app.router.add_get("/v1/jobs", _list)
    app.router.add_get(one, _named(_view))
    app.router.add_delete(one, _named(_delete))
    app.router.add_get(f"{one}/events", _named(_events))
    app.router.add_get(f"{one}/logs", _named(_logs))
    app.router.add_get(f"{one}/logs/{{node}}", _named(_log))
    app.router.add_post(f"{one}/scale", _named(_scale))
    app.router.add_post(f"{one}/suspend", _named(_suspend))
    app.router.add_post(f"{one}/resume", _named(_resume))
    return app


def _named(route: Route) -> Route:
    """Wrap a route: check that the path names the job, and turn errors into refusals."""

    @wraps(route)
    async def served(request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name != request.app[JOB].name:
            return refusal(404, f"there is no job '{name}'; there is {request.app[JOB].name}")
        try:
            return await route(request)
        except DecodeError as error:
            return refusal(400, f"the request cannot be read: {error}")
        except InvalidRequest as error:
            return refusal(422, str(error))
        except JobRequestRefused as error:
            return refusal(409, str(error))
        except BadQuery as error:
            return refusal(400, str(error))

    return served


async def _list(request: web.Request) -> web.Response:
    return json_answer([document(await request.app[JOB].view())])


async def _view(request: web.Request) -> web.Response:
    return json_answer(document(await request.app[JOB].view()))


async def _events(request: web.Request) -> web.Response:
    asked = EventQuery.of(request)
    return json_answer(await request.app[JOB].history.after(asked.since, wait=asked.wait))


async def _logs(request: web.Request) -> web.Response:
    return json_answer(await asyncio.to_thread(list_logs, request.app[JOB].logs))


async def _log(request: web.Request) -> web.Response:
    node, offset = request.match_info["node"], byte_offset(request)
    try:
        piece = await asyncio.to_thread(read_piece, request.app[JOB].logs, node, offset=offset)
    except FileNotFoundError:
        return refusal(404, f"there is no output of a node '{node}'")
    return web.Response(body=piece, content_type="application/octet-stream")


async def _scale(request: web.Request) -> web.Response:
    sizes = await read_body(request, dict[str, int])
    request.app[JOB].requests.scale(sizes)
    return json_answer({"accepted": True, "sizes": sizes})


async def _suspend(request: web.Request) -> web.Response:
    request.app[JOB].requests.suspend(True)
    return json_answer({"accepted": True})


async def _resume(request: web.Request) -> web.Response:
    request.app[JOB].requests.suspend(False)
    return json_answer({"accepted": True})


async def _delete(request: web.Request) -> web.Response:
    request.app[JOB].requests.delete()
    return json_answer({"accepted": True})
