"""The job's token: required for every request, and never revealed to others."""

from __future__ import annotations

import asyncio
import os
import stat
import urllib.request
from collections.abc import Callable
from pathlib import Path

import aiohttp
import psutil
import pytest

from resile.job.elasticity import Elasticity
from resile.wire.auth import read_token_of
from resile.wire.client import AGENT_PATH, Access, connect
from resile.wire.directive import Directive
from resile.wire.endpoint import free_port
from resile.wire.errors import RefusedByPeer
from resile.wire.http_client import MasterHttpClient, master_session
from tests.local.commands import wait_for
from tests.local.jobs import Job
from tests.local.wire.masters import TOKEN, MasterProcess, bearer, resile, running_master
from tests.local.wire.pretend import honest_agent, is_served

PATHS = [
    "/v1/status",
    "/v1/trainings",
    "/v1/events",
    "/metrics",
    AGENT_PATH,
    "/",
    "/v1/no-such-thing",
    "/healthz/..",
]
WRONG = [None, "", "not-the-token-of-this-job", TOKEN[:-1], TOKEN + "x", TOKEN.upper()]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("token", WRONG)
def test_a_request_without_the_token_learns_nothing(
    master: MasterProcess, path: str, token: str | None
) -> None:
    assert master.ask(path, token=token) == (401, {"error": "a valid job token is required"})


@pytest.mark.parametrize("path", ["/v1/stop", "/v1/nodes/0/drain"])
def test_a_command_without_the_token_is_not_obeyed(master: MasterProcess, path: str) -> None:
    assert master.ask(path, token="not-the-token-of-this-job", method="POST")[0] == 401
    assert master.status().phase == "gathering"


READ = read_token_of(TOKEN)


@pytest.mark.parametrize("path", ["/v1/status", "/v1/trainings", "/v1/events", "/metrics"])
def test_the_read_token_may_look(master: MasterProcess, path: str) -> None:
    request = urllib.request.Request(f"http://{master.endpoint}{path}", headers=bearer(READ))
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    ("path", "method"),
    [("/v1/stop", "POST"), ("/v1/nodes/0/drain", "POST"), ("/v1/directive", "PUT")],
)
def test_the_read_token_may_change_nothing(master: MasterProcess, path: str, method: str) -> None:
    assert master.ask(path, token=READ, method=method, body=b"{}") == (
        403,
        {
            "error": f"this token has the scope read; {method} {path} needs the job's token, "
            "which has the scope write"
        },
    )
    assert master.status().phase == "gathering"


async def test_the_read_token_makes_nobody_a_node(master: MasterProcess) -> None:
    with pytest.raises(RefusedByPeer, match="it has the scope read, not write") as refused:
        await connect(Access(master.endpoint, READ))
    assert refused.value.final
    await is_served(master)


async def test_the_masters_client_works_with_the_read_token_and_hears_the_refusal(
    master: MasterProcess,
) -> None:
    async with master_session() as session:
        client = MasterHttpClient(session, Access(master.endpoint, READ))
        assert (await client.status()).phase == "gathering"
        with pytest.raises(RefusedByPeer, match="this token has the scope read"):
            await client.direct(Directive(elasticity=Elasticity()))
        assert await client.events() is not None


def test_everybody_may_ask_whether_the_master_lives_and_learns_no_more(
    master: MasterProcess,
) -> None:
    assert master.ask("/healthz", token=None) == (200, {"ok": True})


@pytest.mark.parametrize(
    "header", [b"Bearer \xff\xfe", b"Bearer " + b"x" * 7000, b"Basic eDp5", b"\xc3\x28"]
)
async def test_a_header_of_strange_bytes_is_a_wrong_token(
    master: MasterProcess, header: bytes
) -> None:
    host, port = master.endpoint.host, master.endpoint.port
    reader, writer = await asyncio.open_connection(host, port)
    request = b"GET /v1/status HTTP/1.1\r\nHost: x\r\nAuthorization: " + header + b"\r\n\r\n"
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 401 "), answer


@pytest.mark.parametrize("token", ["", "not-the-token-of-this-job"])
async def test_a_websocket_without_the_token_is_not_opened(
    master: MasterProcess, token: str
) -> None:
    async with aiohttp.ClientSession() as session:
        opening = session.ws_connect(
            f"http://{master.endpoint}{AGENT_PATH}", headers=bearer(token) if token else {}
        )
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await opening
    assert refused.value.status == 401
    await is_served(master)


async def test_our_client_says_that_it_was_the_token(master: MasterProcess) -> None:
    with pytest.raises(RefusedByPeer, match="refused the token") as refused:
        await connect(Access(master.endpoint, "not-the-token-of-this-job"))
    assert refused.value.final


def test_an_agent_with_a_wrong_token_goes_and_says_why(
    master: MasterProcess, tmp_path: Path
) -> None:
    script = tmp_path / "never.py"
    script.write_text("raise SystemExit('must not run')")
    token = tmp_path / "token"
    token.write_text("not-the-token-of-this-job")
    agent = resile(
        tmp_path,
        *("run", "--rdzv-endpoint", str(master.endpoint), "--preload", "none"),
        *("--token-file", str(token), str(script)),
    )
    assert agent.returncode != 0
    assert f"the master at {master.endpoint} refused the token" in agent.stderr
    assert "Traceback" not in agent.stderr
    assert "not-the-token-of-this-job" not in agent.stderr


def test_a_token_that_a_master_makes_is_its_owners_alone(tmp_path: Path) -> None:
    with running_master(tmp_path, token=None) as made:
        (file,) = (tmp_path / "home" / "runs").glob("*/token")
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        token = file.read_text().strip()
        assert made.ask("/v1/status", token=token)[0] == 200
        assert token not in made.log
        assert list(file.parent.glob("token.*")) == []
    assert not file.exists()


async def test_a_master_that_is_ended_in_the_middle_of_a_job_keeps_token_and_store(
    tmp_path: Path,
) -> None:
    flags = ("--nnodes", "1", "--endpoint", f"127.0.0.1:{free_port()}")
    with running_master(tmp_path, *flags, token=None) as first:
        (file,) = (tmp_path / "home" / "runs").glob("*/token")
        token = file.read_text().strip()
        async with honest_agent(Access(first.endpoint, token)) as agent:
            start = await agent.trains()
            first.process.terminate()
            assert await asyncio.to_thread(first.process.wait, 30) == 0
    with running_master(tmp_path, *flags, token=None) as second:
        code, shown = second.ask("/v1/status", token=token)
        assert code == 200
        assert shown["round"] == start.round


def test_no_command_line_and_no_log_shows_the_token(job: Job) -> None:
    script = job.folder / "waiting.py"
    script.write_text("import time\nprint('here', flush=True)\nwhile True: time.sleep(1)\n")
    node = job.start("--standalone", "--preload", "none", script=str(script), endpoint=False)
    node.says("here")
    (file,) = (job.folder / "home" / "runs").glob("*/token")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = file.read_text().strip()
    try:
        masters = wait_for(lambda: masters_in(job.folder), "the standalone master")
        family = [*node.family(), *masters]
        assert len(family) >= 3
        assert not [p.pid for p in family if token in " ".join(p.cmdline())]
        assert token not in node.output + job.master_log
    finally:
        for process in masters_in(job.folder):
            process.kill()


def masters_in(folder: Path) -> list[psutil.Process]:
    """The masters whose run folder is in ``folder``."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if "master" in (words := process.info["cmdline"] or [])
        and any(word.startswith(str(folder)) for word in words)
    ]


@pytest.mark.parametrize(
    ("write", "complaint"),
    [
        (lambda path: path.write_text("short\n"), "shorter than 16 characters"),
        (lambda path: path.write_text("\n"), "shorter than 16 characters"),
        (lambda path: path.write_bytes(b"\xff" * 40), "it is not text"),
        (lambda path: path.write_text("two words, one too many"), "printable ASCII"),
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda _path: None, "No such file or directory"),
    ],
    ids=["short", "empty", "binary", "spaces", "a folder", "missing"],
)
def test_a_token_file_that_cannot_be_used_is_named(
    tmp_path: Path, write: Callable[[Path], object], complaint: str
) -> None:
    token = tmp_path / "token"
    write(token)
    done = resile(tmp_path, "master", "--token-file", str(token))
    assert done.returncode == 2
    line, _ = done.stderr.splitlines()
    assert str(token) in line
    assert complaint in line
    assert not (tmp_path / "home").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_token_that_somebody_else_put_there_is_not_used(tmp_path: Path) -> None:
    port = free_port()
    planted = tmp_path / "home" / "runs" / f"127.0.0.1_{port}" / "token"
    planted.parent.mkdir(parents=True)
    planted.write_text("a-token-that-an-attacker-knows")
    planted.chmod(0o600)
    os.chown(planted, 12345, 12345)
    done = resile(tmp_path, "master", "--endpoint", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert "belongs to another user" in done.stderr
