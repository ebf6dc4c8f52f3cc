"""Responses that come in pieces, break off, never come or are something else."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from resile.kube import transport
from resile.kube.client import KubeClient
from resile.kube.errors import ApiError, ApiUnreachable, Gone
from resile.kube.resources import PODS
from tests.unit.kube.listener import ask, written


@asynccontextmanager
async def answering(*pieces: bytes, hold: bool = False) -> AsyncIterator[str]:
    """A server that responds to everything with these bytes, and then closes or goes silent."""
    released = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if hold:
            await released.wait()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        released.set()


STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(content), content)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "it closed the connection"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "it closed the connection"),
        (b"SSH-2.0-OpenSSH\r\n", "its response is not HTTP"),
    ],
)
async def test_an_answer_that_breaks_off_is_none(tmp_path: Path, answer: bytes, why: str) -> None:
    async with answering(answer) as url:
        with pytest.raises(ApiUnreachable) as told:
            await ask(written(tmp_path, url, user={}))
    assert str(told.value) == f"the API server at {url} does not answer: {why}"


async def test_a_redirect_is_not_followed(tmp_path: Path) -> None:
    """Credentials are for the server that the kubeconfig names."""
    head = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"
    async with answering(head) as url:
        with pytest.raises(ApiError) as told:
            await ask(written(tmp_path, url, user={"token": "t"}))
    assert told.value.status == 302


async def test_a_silent_server_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "REQUEST_TIMEOUT", 0.2)
    async with answering(hold=True) as url:
        with pytest.raises(ApiUnreachable, match="timed out"):
            await ask(written(tmp_path, url, user={}))


async def test_events_are_cut_at_line_feeds_alone_and_silence_ends_a_watch(tmp_path: Path) -> None:
    text = "a\u0085b\u2028c"
    event = {"type": "ADDED", "object": {"metadata": {"name": text}}}
    line = json.dumps(event, ensure_ascii=False).encode() + b"\n"
    pieces = (STREAM, chunk(line + line[:9]), chunk(line[9:]))
    async with (
        answering(*pieces, hold=True) as url,
        KubeClient.connect(kubeconfig=written(tmp_path, url, user={})) as client,
    ):
        watch = client.watch(PODS, resource_version="1", timeout_seconds=0, silence_margin=0.3)
        seen = [await watch.__anext__() for _ in range(2)]
        with pytest.raises(ApiUnreachable, match="timed out"):
            await watch.__anext__()
    assert [(kind, obj["metadata"]["name"]) for kind, obj in seen] == [("ADDED", text)] * 2


async def test_a_watch_that_is_refused_has_the_servers_reason(tmp_path: Path) -> None:
    status = json.dumps({"reason": "Expired", "message": "too old"}).encode()
    head = b"HTTP/1.1 410 Gone\r\nContent-Length: %d\r\n\r\n" % len(status)
    async with (
        answering(head + status) as url,
        KubeClient.connect(kubeconfig=written(tmp_path, url, user={})) as client,
    ):
        with pytest.raises(Gone, match="too old"):
            await client.watch(PODS, resource_version="1", timeout_seconds=1).__anext__()


async def test_connections_are_limited_and_a_stream_that_is_closed_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "CONNECTIONS", 1)
    monkeypatch.setattr(transport, "REQUEST_TIMEOUT", 0.2)
    async with (
        answering(STREAM, chunk(b"hello\n"), hold=True) as url,
        KubeClient.connect(kubeconfig=written(tmp_path, url, user={})) as client,
    ):
        first = client.logs("a", follow=True)
        assert await first.__anext__() == b"hello\n"
        with pytest.raises(ApiUnreachable, match="timed out"):
            await client.logs("a", follow=True).__anext__()
        await first.aclose()
        async with aclosing(client.logs("a", follow=True)) as second:
            assert await second.__anext__() == b"hello\n"


def test_a_script_that_ends_without_closing_says_nothing(tmp_path: Path) -> None:
    script = (
        "import asyncio\n"
        "from tests.unit.kube.listener import listening, written\n"
        "from resile.client.sync import SyncCluster\n"
        "from pathlib import Path\n"
        "async def main():\n"
        "    global cluster\n"
        "    async with listening() as listener:\n"
        f"        path = written(Path({str(tmp_path)!r}), listener.url, user={{}})\n"
        "        cluster = SyncCluster.connect(kubeconfig=path)\n"
        "        jobs = asyncio.to_thread(lambda: cluster.call(cluster.cluster.jobs()))\n"
        "        print(await jobs)\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
