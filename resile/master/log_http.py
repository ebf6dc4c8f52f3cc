"""``/v1/logs``: the output of a job's nodes, as far as it lies on this machine.

A piece is answered at a time; who follows asks again from where the last one ended.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from aiohttp import web

from resile.master.answers import json_answer, refusal
from resile.wire.logfiles import list_logs, read_piece

FOLDER = web.AppKey("log_folder", Path)


def add_log_routes(app: web.Application, folder: Path) -> None:
    """Serve the logs in ``folder`` on ``app``."""
    app[FOLDER] = folder
    app.router.add_get("/v1/logs", _logs)


async def _logs(request: web.Request) -> web.Response:
    folder = request.app[FOLDER]
    node = request.query.get("node")
    if node is None:
        return json_answer(await asyncio.to_thread(list_logs, folder))
    offset = request.query.get("offset", "0")
    if not re.fullmatch("[0-9]{1,18}", offset):
        return refusal(400, f"offset: a number of bytes is wanted, not '{offset}'")
    try:
        piece = await asyncio.to_thread(read_piece, folder, node, offset=int(offset))
    except FileNotFoundError:
        return refusal(404, f"there is no output of a node '{node}'")
    return web.Response(body=piece, content_type="application/octet-stream")
