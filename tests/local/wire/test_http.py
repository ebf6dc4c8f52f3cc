"""Malformed requests: the response is an error with a reason, and nothing more."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.local.wire.masters import TOKEN, MasterProcess
from tests.local.wire.pretend import is_served

AUTHORIZED = f"Host: x\r\nAuthorization: Bearer {TOKEN}\r\n".encode()


async def raw(master: MasterProcess, request: bytes) -> bytes:
    """The whole response to some bytes."""
    host, port = master.endpoint.host, master.endpoint.port
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    try:
        return await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()


@pytest.mark.parametrize(
    ("path", "method", "status"),
    [
        ("/v1/events?since=x", "GET", 400),
        ("/v1/events?since=-1", "GET", 400),
        ("/v1/events?since=%C2%B2", "GET", 400),
        (f"/v1/events?since={'9' * 5000}", "GET", 400),
        (f"/v1/nodes/{'9' * 5000}/drain", "POST", 404),
        ("/v1/nodes/%D9%A3/drain", "POST", 404),
        ("/v1/nodes/99/drain", "POST", 404),
        ("/v1/nodes/-1/drain", "POST", 404),
        ("/v1/nodes/0/drain?group=none", "POST", 404),
        ("/v1/status?group=none", "GET", 404),
        (f"/v1/status?group={'g' * 5000}", "GET", 404),
        ("/v1/nodes/0/drain", "GET", 405),
        ("/v1/stop", "GET", 405),
        ("/v1/agent", "GET", 400),
        ("/no/such/page", "GET", 404),
        ("/v1/../etc/passwd", "GET", 404),
    ],
)
def test_a_request_that_makes_no_sense_is_an_error_of_the_asker(
    master: MasterProcess, path: str, method: str, status: int
) -> None:
    code, body = master.ask(path, method=method)
    assert code == status
    assert "Traceback" not in str(body)


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"SSH-2.0-OpenSSH_9.0\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\nHost: x\r\nA b: c\r\n\r\n",
        b"GET /v1/status HTTP/1.1\r\n" + b"X: y\r\n" * 5000 + b"\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"POST /v1/stop HTTP/1.1\r\n" + AUTHORIZED + b"Content-Length: -1\r\n\r\n",
        b"POST /v1/stop HTTP/1.1\r\n" + AUTHORIZED + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
    ids=["tls", "ssh", "version", "header", "headers", "line", "length", "chunks"],
)
async def test_bytes_that_are_no_http_are_refused(
    master: MasterProcess, request_bytes: bytes
) -> None:
    answer = await raw(master, request_bytes)
    assert answer == b"" or answer.split(b" ")[1].startswith(b"4"), answer
    assert b"Traceback" not in answer
    assert b"Traceback" not in master.log.encode()


async def test_what_strangers_send_leaves_no_trace_in_the_log(master: MasterProcess) -> None:
    before = master.log
    malformed = b"GET /marked-by-a-stranger\x01 HTTP/1.1\r\n\r\n"
    without_token = b"GET /v1/status HTTP/1.1\r\nHost: x\r\nX: marked-by-a-stranger\r\n\r\n"
    await asyncio.gather(*(raw(master, request) for request in 5 * (malformed, without_token)))
    assert master.log == before


async def test_a_huge_body_is_not_read(master: MasterProcess) -> None:
    head = b"POST /v1/no-such-thing HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000000\r\n\r\n"
    answer = await raw(master, head + bytes(100_000))
    assert answer.startswith(b"HTTP/1.1 401 ")


DEEP = b'{"groups":' + b'{"a":' * 50_000


@pytest.mark.parametrize(
    ("path", "method", "body", "status"),
    [
        ("/v1/directive", "PUT", DEEP, 400),
        ("/v1/directive", "PUT", b"[" * 100_000, 400),
        ("/v1/directive", "PUT", b"\xff\xfe", 400),
        ("/v1/directive", "PUT", bytes(2 * 1024 * 1024), 413),
        ("/v1/directive", "PUT", b"", 400),
        ("/v1/directive", "PUT", b'{"elasticity": {"min_nodes": "four"}}', 400),
        ("/v1/directive", "PUT", b'{"elasticity": {"lease": 1e400}}', 400),
        ("/v1/directive", "PUT", b'{"elasticity": {}, "holders": 99999999999999999999}', 400),
        ("/v1/job", "GET", None, 404),
        ("/v1/scale", "POST", b"{}", 404),
    ],
)
def test_a_body_that_makes_no_sense_is_an_error_of_the_asker(
    master: MasterProcess, path: str, method: str, body: bytes | None, status: int
) -> None:
    code, answer = master.ask(path, method=method, body=body)
    assert code == status
    assert "Traceback" not in str(answer)


async def test_after_all_this_agents_are_served(master: MasterProcess) -> None:
    await is_served(master)


def test_events_are_told_since_a_number(master: MasterProcess) -> None:
    code, events = master.ask("/v1/events")
    assert code == 200
    assert events
    assert master.ask(f"/v1/events?since={events[-2]['seq']}") == (200, [events[-1]])
    assert json.dumps(events)
