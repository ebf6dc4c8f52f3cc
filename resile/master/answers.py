"""The two kinds of answer over HTTP: JSON, and a refusal with a sentence."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from aiohttp import web

from resile.decoding import decode_json
from resile.wire.views import Refusal

T = TypeVar("T")


def json_answer(value: object, *, status: int = 200) -> web.Response:
    """Any value as JSON."""
    body = msgspec.json.encode(value)
    return web.Response(body=body, content_type="application/json", status=status)


def refusal(status: int, sentence: str) -> web.Response:
    """Why it was not done."""
    return json_answer(Refusal(error=sentence), status=status)


async def read_body(request: web.Request, kind: type[T]) -> T:
    """A request's JSON as ``kind``; raises DecodeError with what is wrong."""
    return decode_json(await request.read(), kind)
