"""The job API of `resile up`: on its Unix socket and on a loopback port, for valid and invalid
clients."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import stat
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from resile.client.up_client import UpClient
from resile.job.events import EventKind
from resile.job.manifest.parse import job_from_data
from resile.job.view import JobView
from resile.local.api import ApiPortUnusable, serving_port, serving_socket
from resile.local.api_socket import SOCKET, socket_address
from resile.local.history import JobHistory
from resile.local.jobdir import JobDir
from resile.local.requests import RequestBook
from resile.wire.auth import read_token_of
from resile.wire.errors import RefusedByPeer, Unreachable
from resile.wire.views import EventView
from tests.local.commands import wait_for
from tests.local.up.ups import Machine, manifest, ticking

TOKEN = "a-token-that-only-the-tests-know"
MANIFEST = manifest(
    "asked",
    {
        "worker": {"command": ["train"], "replicas": {"min": 2, "max": 6}, "nodeUnit": 2},
        "ps": {"command": ["serve"]},
    },
)


@dataclass
class Served:
    """A job without processes."""

    folder: JobDir
    name: str = "asked"
    logs: Path = field(init=False)
    history: JobHistory = field(init=False)
    requests: RequestBook = field(init=False)

    def __post_init__(self) -> None:
        self.logs = self.folder.logs
        self.history = JobHistory(self.folder, lambda _events: None)
        self.requests = RequestBook(
            job_from_data(MANIFEST), self.folder, over=lambda: False, changed=self._say
        )

    def _say(self, kind: EventKind, text: str) -> None:
        self.history.append([EventView(seq=0, time=1.0, kind=kind.value, text=text)])

    async def view(self) -> JobView:
        return JobView(name=self.name, phase="Running", requested_sizes=self.requests.current.sizes)


@pytest.fixture(params=["short", "x" * 120], ids=["short", "long"])
def folder(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobDir]:
    """A job's folder in a home whose path alone may be longer than the address of a Unix socket."""
    monkeypatch.setenv("RESILE_HOME", str(tmp_path / request.param))
    made = JobDir("asked")
    with made.hold():
        made.begin()
        yield made


@pytest_asyncio.fixture
async def served(folder: JobDir) -> AsyncIterator[Served]:
    job = Served(folder)
    async with serving_socket(job, folder.path):
        yield job


async def test_a_job_is_seen_scaled_suspended_and_deleted(served: Served) -> None:
    up = UpClient(served.folder)
    assert (await up.view()).phase == "Running"
    await up.scale({"worker": 4})
    await up.suspend()
    await up.resume()
    await up.delete()
    found = served.folder.requests()
    assert (found.sizes, found.suspend, found.deleting) == ({"worker": 4}, False, True)
    assert (await up.view()).requested_sizes == {"worker": 4}
    assert [event.kind for event in await up.events()] == [
        "ScaleRequested",
        "SuspendRequested",
        "ResumeRequested",
        "DeletionRequested",
    ]
    with pytest.raises(RefusedByPeer, match="is being deleted"):
        await up.scale({"worker": 2})


async def test_the_socket_is_its_owners_alone_and_goes_with_its_server(folder: JobDir) -> None:
    async with serving_socket(Served(folder), folder.path):
        found = (folder.path / SOCKET).stat()
        assert stat.S_ISSOCK(found.st_mode)
        assert stat.S_IMODE(found.st_mode) == 0o600
    with pytest.raises(Unreachable):
        await UpClient(folder).view()
    async with serving_socket(Served(folder), folder.path):
        await UpClient(folder).view()


async def test_who_waits_for_events_is_answered_when_one_happens(served: Served) -> None:
    up = UpClient(served.folder)
    assert await up.events(wait=0.05) == []
    waiting = asyncio.create_task(up.events(wait=50))
    await asyncio.sleep(0.05)
    await up.suspend()
    events = await asyncio.wait_for(waiting, 30)
    assert [event.kind for event in events] == ["SuspendRequested"]


REFUSED: tuple[tuple[Any, str], ...] = (
    ({"worker": 8}, "role worker may have 2 to 6 nodes, not 8"),
    ({"trainer": 1}, "there is no role 'trainer'; there are worker, ps"),
    ({}, "name at least one role"),
    ({"worker": "4"}, "the request cannot be read: Expected `int`, got `str`"),
    ({"worker": 4, "ps": 2}, "role ps has 1 node, always"),
)


async def test_what_the_job_cannot_be_is_refused_with_a_sentence(served: Served) -> None:
    up = UpClient(served.folder)
    for sizes, sentence in REFUSED:
        with pytest.raises(RefusedByPeer, match=re.escape(sentence)):
            await up.scale(sizes)
    assert (await up.view()).requested_sizes == {}


async def test_logs_are_read_piece_by_piece_and_nothing_else_is(served: Served) -> None:
    up, logs = UpClient(served.folder), served.logs
    text = b"".join(b"line %d\n" % number for number in range(60_000))
    (logs / "asked-worker-10.log").write_bytes(text)
    (logs / "asked-worker-9.log").write_bytes(b"")
    (logs / ".hidden.log").write_text("secret")
    (logs / "linked.log").symlink_to(served.folder.token_file)
    files = await up.log_files()
    assert [(file.node, file.size) for file in files if file.node != ".hidden"] == [
        ("asked-worker-9", 0),
        ("asked-worker-10", len(text)),
    ]
    read = b""
    while piece := await up.log("asked-worker-10", offset=len(read)):
        read += piece
    assert read == text
    for name in ("../token", "..", ".hidden", "/etc/passwd", "a/b", "a\\b", "linked", "a\x00b"):
        with pytest.raises(RefusedByPeer):
            await up.log(name)


async def raw(folder: JobDir, request: bytes) -> tuple[int, dict[str, Any]]:
    """The status and the JSON of the response to exactly these bytes."""
    with socket_address(folder.path) as address:
        reader, writer = await asyncio.open_unix_connection(address)
    writer.write(request)
    status = int((await reader.readline()).split()[1])
    headers = await reader.readuntil(b"\r\n\r\n")
    length = int(re.search(rb"Content-Length: (\d+)", headers)[1])  # type: ignore[index]
    body = await reader.readexactly(length)
    writer.close()
    return status, json.loads(body) if body.startswith(b"{") else {}


def post(path: str, body: bytes) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: up\r\nContent-Length: %d\r\n\r\n%s" % (
        path.encode(),
        len(body),
        body,
    )


@pytest.mark.parametrize(
    ("request_bytes", "status", "sentence"),
    [
        (post("/v1/jobs/asked/scale", b""), 400, "cannot be read"),
        (post("/v1/jobs/asked/scale", b"[" * 100_000), 400, "cannot be read"),
        (post("/v1/jobs/asked/scale", b"\xff\xfe"), 400, "cannot be read"),
        (post("/v1/jobs/asked/scale", b'{"worker": 1e400}'), 400, "cannot be read"),
        (post("/v1/jobs/asked/scale", b'{"worker": %d}' % 10**30), 422, "may have 2 to 6"),
        (post("/v1/jobs/asked/scale", bytes(2 * 1024 * 1024)), 413, ""),
        (post("/v1/jobs/other/suspend", b""), 404, "there is no job 'other'; there is asked"),
        (b"GET /v1/jobs/asked/events?since=x HTTP/1.1\r\nHost: u\r\n\r\n", 400, "since: a seq"),
        (b"GET /v1/jobs/asked/events?wait=-1 HTTP/1.1\r\nHost: u\r\n\r\n", 400, "wait: a number"),
        (b"GET /v1/jobs/asked/logs/n?offset=a HTTP/1.1\r\nHost: u\r\n\r\n", 400, "offset: a num"),
        (b"no HTTP at all\r\n\r\n", 400, ""),
    ],
)
async def test_a_damaged_request_is_an_error_of_the_asker(
    served: Served, request_bytes: bytes, status: int, sentence: str
) -> None:
    code, answer = await raw(served.folder, request_bytes)
    assert code == status
    assert sentence in answer.get("error", "")
    assert "Traceback" not in str(answer)
    assert (await UpClient(served.folder).view()).name == "asked"


async def test_readers_that_do_not_read_keep_nobody_waiting(served: Served) -> None:
    (served.logs / "asked-worker-0.log").write_bytes(bytes(8 << 20))
    request = b"GET /v1/jobs/asked/logs/asked-worker-0 HTTP/1.1\r\nHost: up\r\n\r\n" * 50
    slow = []
    for _ in range(30):
        with socket_address(served.folder.path) as address:
            line = socket.socket(socket.AF_UNIX)
            line.connect(address)
        line.setblocking(False)
        line.send(request)
        slow.append(line)
    await asyncio.sleep(0.2)
    up = UpClient(served.folder)
    for _ in range(20):
        assert (await asyncio.wait_for(up.view(), 5)).name == "asked"
    for line in slow:
        line.close()


# --- the port --------------------------------------------------------------------------------


async def test_the_port_needs_the_token_and_serves_the_same(folder: JobDir) -> None:
    job = Served(folder)
    async with serving_port(job, 0, token=TOKEN) as port, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{port}/v1/jobs"
        async with session.get(url) as answer:
            assert answer.status == 401
        wrong = {"Authorization": "Bearer another-token-altogether"}
        async with session.delete(f"{url}/asked", headers=wrong) as answer:
            assert answer.status == 401
        right = {"Authorization": f"Bearer {TOKEN}"}
        async with session.get(url, headers=right) as answer:
            assert [one["name"] for one in await answer.json()] == ["asked"]
        async with session.post(
            f"{url}/asked/scale", headers=right, data=b'{"worker": 4}'
        ) as answer:
            assert answer.status == 200
        assert folder.requests().sizes == {"worker": 4}
        read = {"Authorization": f"Bearer {read_token_of(TOKEN)}"}
        for path in ("", "/asked", "/asked/events", "/asked/logs"):
            async with session.get(f"{url}{path}", headers=read) as answer:
                assert answer.status == 200
        for method, path in (("POST", "/asked/scale"), ("DELETE", "/asked")):
            async with session.request(method, f"{url}{path}", headers=read) as answer:
                assert answer.status == 403
                told = (await answer.json())["error"]
                assert told.startswith(f"this token has the scope read; {method} /v1/jobs{path}")
        assert not folder.requests().deleting
        with pytest.raises(ApiPortUnusable, match=f"--api-port {port}: .*in use"):
            await serving_port(job, port, token=TOKEN).__aenter__()


# --- a whole `resile up` ---------------------------------------------------------------------


def sizes(machine: Machine, name: str) -> int:
    return int(machine.view(name)["status"]["roles"]["worker"]["wanted"])


def test_a_request_outlives_a_killed_up_and_a_killed_master(machine: Machine) -> None:
    role = ticking(replicas={"min": 1, "max": 3, "wanted": 1}, PAUSE="0.05")
    described = manifest("kept", {"worker": role})
    up = machine.up(described)
    machine.await_training("kept", nodes=1)
    os.kill(machine.master_pid(), signal.SIGKILL)
    machine.says("scale", "kept", "worker=2", "--wait")
    first = machine.events("kept")
    assert ("ScaleRequested", "a user asked for worker=2") in first
    up.process.kill()
    up.wait()
    machine.has_nothing_left()
    assert machine.events("kept")[: len(first)] == first, "what happened is still there"
    assert "Crashed" in machine.says("jobs")
    machine.up(described)
    machine.await_training("kept", nodes=2)
    assert sizes(machine, "kept") == 2
    asked = ("ScaleRequested", "worker=2, asked for before 'up' was killed")
    assert asked in machine.events("kept")
    machine.says("delete", "kept")


def test_the_story_is_one_and_in_order_over_the_masters_death(machine: Machine) -> None:
    role = ticking(replicas={"min": 1, "max": 2, "wanted": 1}, PAUSE="0.05")
    up = machine.up(manifest("told", {"worker": role}), "--api-port", "0")
    machine.await_training("told", nodes=1)
    os.kill(machine.master_pid(), signal.SIGKILL)
    wait_for(lambda: "MasterReturned" in dict(machine.events("told")), "the master's return")
    machine.says("scale", "told", "worker=2", "--wait")
    machine.await_training("told", nodes=2)
    said = machine.says("events", "told", "-o", "json")
    events = [json.loads(line) for line in said.splitlines()]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = [event["kind"] for event in events]
    order = ["ApiListening", "NodeStarted", "RoundRunning", "MasterReturned", "ScaleRequested"]
    assert [kinds.index(kind) for kind in order] == sorted(kinds.index(kind) for kind in order)
    assert len([kind for kind in kinds if kind == "ScaleRequested"]) == 1
    url = re.search(r"http://127\.0\.0\.1:\d+", dict(machine.events("told"))["ApiListening"])
    assert url is not None
    assert f"{url[0]}\n" in up.output, "and printed"
    request = urllib.request.Request(
        f"{url[0]}/v1/jobs/told",
        headers={"Authorization": f"Bearer {machine.says('token', 'told').strip()}"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert json.load(answer)["phase"] == "Running"
    assert machine.says("token", "told", "--write") == machine.job("told").token_file.read_text()
    up.signal(signal.SIGTERM)
    up.wait()
    kept = machine.says("events", "told", "-o", "json").splitlines()
    assert kept[: len(events)] == said.splitlines(), "as it was told, so it is kept"
