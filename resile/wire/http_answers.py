"""HTTP answers and queries of Resile's servers: JSON, and refusals with a sentence."""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
from aiohttp import web

from resile.decoding import decode_json
from resile.wire.views import Refusal

__all__ = ["BadQuery", "EventQuery", "byte_offset", "json_answer", "read_body", "refusal"]

LONGEST_WAIT = 60.0
"""Seconds. A client that waits longer has to repeat its request: one that is gone costs no more
than that."""

T = TypeVar("T")


class BadQuery(ValueError):
    """A parameter of a request's query cannot be read; the text says why."""


def json_answer(value: object, *, status: int = 200) -> web.Response:
    """Return an answer with a value as JSON."""
    body = msgspec.json.encode(value)
    return web.Response(body=body, content_type="application/json", status=status)


def refusal(status: int, sentence: str) -> web.Response:
    """Return a refusal with the reason as a sentence."""
    return json_answer(Refusal(error=sentence), status=status)


async def read_body(request: web.Request, kind: type[T]) -> T:
    """Decode a request's JSON as ``kind``; raises DecodeError with what is wrong."""
    return decode_json(await request.read(), kind)


class EventQuery(msgspec.Struct, frozen=True):
    """The events that a request asks for."""

    since: int
    wait: float
    """Seconds to wait for the first event."""

    @classmethod
    def of(cls, request: web.Request) -> EventQuery:
        """Read ``?since=&wait=``; raises BadQuery with what is wrong."""
        since, wait = request.query.get("since", "0"), request.query.get("wait", "0")
        if not re.fullmatch("[0-9]{1,15}", since):
            raise BadQuery(f"since: a sequence number is wanted, not '{since}'")
        if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", wait):
            raise BadQuery(f"wait: a number of seconds is wanted, not '{wait}'")
        return cls(int(since), min(float(wait), LONGEST_WAIT))


def byte_offset(request: web.Request) -> int:
    """Read ``?offset=``; raises BadQuery with what is wrong."""
    offset = request.query.get("offset", "0")
    if not re.fullmatch("[0-9]{1,18}", offset):
        raise BadQuery(f"offset: a number of bytes is wanted, not '{offset}'")
    return int(offset)
