"""Clients and master prove to each other that they know the token, without revealing it."""

from __future__ import annotations

import asyncio
import http.server
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp
import pytest

from resile.job.elasticity import Elasticity
from resile.wire.client import Access, connect
from resile.wire.digest import Credentials, Verifier
from resile.wire.directive import Directive, GroupDirective
from resile.wire.endpoint import Endpoint
from resile.wire.errors import RefusedByPeer, UnprovenPeer, WireError
from resile.wire.http_client import MasterHttpClient, master_session
from resile.wire.link import Link
from resile.wire.messages import FromMaster
from tests.local.commands import wait_for
from tests.local.wire.masters import TOKEN, MasterProcess, running_master
from tests.local.wire.pretend import hello, is_served

SECRET = Directive(
    elasticity=Elasticity(),
    groups={"that is nobody's business": GroupDirective(elasticity=Elasticity())},
)


class Squatter(http.server.BaseHTTPRequestHandler):
    """Listens on the master's port, pretends to be one, and records the requests."""

    protocol_version = "HTTP/1.1"
    verifier = Verifier("a-token-that-the-squatter-made-up")
    heard: list[str]
    claims = True

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.heard.append(f"{self.requestline}\n{self.headers}\n{body!r}")
        given = self.headers.get("Authorization")
        self.send_response(200 if given else 401)
        if given and self.claims:
            self.send_header("Authentication-Info", self.verifier.proof(given))
        if not given:
            self.send_header("WWW-Authenticate", self.verifier.challenge())
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    do_GET = do_PUT = do_POST = do_DELETE = answer

    def log_message(self, *_words: object) -> None:
        """Log nothing."""


@contextmanager
def squatter(*, claims: bool = True, port: int = 0) -> Iterator[tuple[Endpoint, list[str]]]:
    """Run a squatter; yields its endpoint and the requests it received."""
    heard: list[str] = []
    handler = type("Handler", (Squatter,), {"heard": heard, "claims": claims})
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Endpoint("127.0.0.1", server.server_address[1]), heard
        finally:
            server.shutdown()
            thread.join()


async def agent(access: Access) -> None:
    await connect(access)


async def controller(access: Access) -> None:
    async with master_session() as session:
        await MasterHttpClient(session, access).direct(SECRET)


@pytest.mark.parametrize("ask", [agent, controller])
@pytest.mark.parametrize("claims", [True, False])
async def test_a_squatter_on_the_masters_port_learns_nothing(ask, claims: bool) -> None:
    with squatter(claims=claims) as (endpoint, heard):
        with pytest.raises(WireError):
            await ask(Access(endpoint, TOKEN))
        said = "\n".join(heard)
        assert len(heard) == 2, said
        assert TOKEN not in said
        assert "nobody's business" not in said


async def test_a_master_takes_the_place_of_a_squatter_it_never_was(master: MasterProcess) -> None:
    access = Access(master.endpoint, TOKEN)
    async with master_session() as session:
        client = MasterHttpClient(session, access)
        for _ in range(3):
            assert (await client.status()).phase
        assert set(await client.trainings()) == {""}
    connection = await connect(access)
    await connection.close()


async def test_a_wrong_token_is_refused_to_every_client(master: MasterProcess) -> None:
    wrong = Access(master.endpoint, "not-the-token-of-this-job")
    for ask in (agent, controller):
        with pytest.raises(RefusedByPeer, match="token"):
            await ask(wrong)
    await is_served(master)


async def test_an_overheard_request_cannot_be_sent_again(master: MasterProcess) -> None:
    url, credentials = f"http://{master.endpoint}/v1/status", Credentials(TOKEN)
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as refusal:
            assert credentials.challenged(refusal.headers["WWW-Authenticate"])
        header = credentials.authorization("GET", "/v1/status")
        async with session.get(url, headers=header) as answer:
            assert answer.status == 200
        async with session.get(url, headers=header) as again:
            assert again.status == 401
            assert Credentials.is_stale(again.headers["WWW-Authenticate"])


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
@pytest.mark.parametrize(("token", "status"), [(TOKEN, "200"), ("not-the-token-of-this", "401")])
def test_curl_speaks_it(master: MasterProcess, token: str, status: str) -> None:
    """The proof is the standard's (HTTP Digest), so that other tools can compute it."""
    words = ["curl", "-s", "-o", os.devnull, "-w", "%{http_code}", "--noproxy", "*"]
    login = ["--digest", "--user", f"resile:{token}"]
    url = f"http://{master.endpoint}/v1/events?since=0"
    done = subprocess.run([*words, *login, url], capture_output=True, text=True, check=False)
    assert done.stdout == status


async def test_a_stranger_at_a_dead_masters_port_ends_no_agent(tmp_path) -> None:
    """An agent that was welcomed waits for its master, whatever listens on the port meanwhile."""
    told: list[FromMaster] = []
    with running_master(tmp_path, "--nnodes", "2") as master:
        link = Link(
            master.access,
            hello=hello,
            renewal=lambda: None,
            deliver=told.append,
            revive=None,
            give_up_after=lambda: 1e9,
        )
        running = asyncio.create_task(link.run())
        await asyncio.to_thread(wait_for, lambda: told, "the welcome")
        master.process.kill()
        await asyncio.to_thread(master.process.wait)
        with squatter(port=master.endpoint.port) as (_, heard):
            await asyncio.to_thread(wait_for, lambda: len(heard) > 4, "attempts to connect")
            assert not running.done()
            assert TOKEN not in "\n".join(heard)
        welcomes = len(told)
        flags = ("--nnodes", "2", "--endpoint", str(master.endpoint))
        with running_master(tmp_path, *flags):
            await asyncio.to_thread(wait_for, lambda: len(told) > welcomes, "another welcome")
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_first_contact_with_a_stranger_is_an_error() -> None:
    with squatter() as (endpoint, _), pytest.raises(UnprovenPeer) as refused:
        await connect(Access(endpoint, TOKEN))
    assert refused.value.final
