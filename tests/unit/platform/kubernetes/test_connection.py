"""What a kubeconfig asks of every request, seen from the server's side; and credential plugins."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("lightkube")

from resile.platform.kubernetes import credentials
from resile.platform.kubernetes.client import KubeClient
from resile.platform.kubernetes.errors import ApiError, ConfigError
from resile.platform.kubernetes.kinds import PODS

EMPTY = json.dumps({"items": [], "metadata": {"resourceVersion": "1"}}).encode()


@dataclass
class Listener:
    """An HTTP server, or a proxy to any, that answers every list with nothing."""

    url: str = ""
    refused: set[str] = field(default_factory=set)
    """Tokens that it does not take any more."""
    heads: list[list[str]] = field(default_factory=list)
    """The lines of each request."""

    def values(self, header: str) -> list[str]:
        split = [line.partition(": ") for line in self.heads[-1]]
        return [text for name, _, text in split if name.lower() == header.lower()]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head.decode().split("\r\n"))
        known = not self.refused.intersection(self.values("Authorization"))
        status = "200 OK" if known else "401 Unauthorized"
        length = f"Content-Length: {len(EMPTY)}\r\nConnection: close\r\n\r\n"
        writer.write(f"HTTP/1.1 {status}\r\n{length}".encode() + EMPTY)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def listening() -> AsyncIterator[Listener]:
    listener = Listener()
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    listener.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield listener


def written(
    folder: Path, url: str, *, user: dict[str, Any], cluster: dict[str, Any] | None = None
) -> str:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url, **(cluster or {})}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "one",
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def ask(kubeconfig: str) -> None:
    async with KubeClient.connect(kubeconfig=kubeconfig) as client:
        await client.list(PODS)


async def test_requests_are_made_as_somebody_else(tmp_path: Path) -> None:
    user = {
        "token": "t",
        "as": "zoë",
        "as-uid": "7",
        "as-groups": ["readers", "writers"],
        "as-user-extra": {"example.org/why": ["audit", "test"]},
    }
    async with listening() as listener:
        await ask(written(tmp_path, listener.url, user=user))
    assert listener.values("Authorization") == ["Bearer t"]
    assert listener.values("Impersonate-User") == ["zoë"]
    assert listener.values("Impersonate-Uid") == ["7"]
    assert listener.values("Impersonate-Group") == ["readers", "writers"]
    assert listener.values("Impersonate-Extra-example.org%2Fwhy") == ["audit", "test"]


async def test_groups_without_somebody_are_a_mistake(tmp_path: Path) -> None:
    path = written(tmp_path, "http://127.0.0.1:1", user={"as-groups": ["readers"]})
    with pytest.raises(ConfigError, match=r"config .*user 'u' lacks 'as'"):
        KubeClient.connect(kubeconfig=path)


async def test_requests_go_through_the_proxy(tmp_path: Path) -> None:
    async with listening() as proxy:
        cluster = {"proxy-url": proxy.url}
        await ask(written(tmp_path, "http://one.example", user={}, cluster=cluster))
    assert proxy.heads[0][0].startswith("GET http://one.example/api/v1/pods")


async def test_a_proxy_of_an_unknown_kind_is_a_mistake(tmp_path: Path) -> None:
    cluster = {"proxy-url": "gopher://proxy.example"}
    path = written(tmp_path, "https://one.example", user={}, cluster=cluster)
    with pytest.raises(ConfigError, match=r"the 'proxy-url' in .*config .*gopher"):
        KubeClient.connect(kubeconfig=path)


# --- credential plugins ---------------------------------------------------------------------


def plugin(folder: Path, body: str, **more: Any) -> dict[str, Any]:
    """A user whose credentials a script prints: ``n`` counts how often it was asked."""
    script = folder / "plugin.py"
    script.write_text(
        "import json, os, sys, time\n"
        f"with open({str(folder / 'asked')!r}, 'a+') as asked:\n"
        "    asked.write('x')\n"
        "    asked.seek(0)\n"
        "    n = len(asked.read())\n"
        "told = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "def answer(**status): print(json.dumps({**told, 'status': status}))\n" + body
    )
    version = "client.authentication.k8s.io/v1"
    told = {"apiVersion": version, "command": sys.executable, "args": [str(script)]}
    return {"exec": {**told, "interactiveMode": "Never", **more}}


def times_asked(folder: Path) -> int:
    return len((folder / "asked").read_text())


async def test_a_plugin_is_asked_once_until_its_token_expires_or_is_refused(tmp_path: Path) -> None:
    soon = "time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + (3600 if n > 1 else -1)))"
    user = plugin(tmp_path, f"answer(token=f'token-{{n}}', expirationTimestamp={soon})\n")
    async with (
        listening() as listener,
        KubeClient.connect(kubeconfig=written(tmp_path, listener.url, user=user)) as client,
    ):
        for expected in ("token-1", "token-2", "token-2"):
            await client.list(PODS)
            assert listener.values("Authorization") == [f"Bearer {expected}"]
        assert times_asked(tmp_path) == 2, "the first had expired"
        listener.refused.add("Bearer token-2")
        await asyncio.gather(*(client.list(PODS) for _ in range(3)))
        assert times_asked(tmp_path) == 3, "one asks for all"
        listener.refused |= {"Bearer token-3", "Bearer token-4"}
        with pytest.raises(ApiError) as refused:
            await client.list(PODS)
        assert refused.value.status == 401


async def test_what_a_plugin_complains_of_is_seen(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    user = plugin(tmp_path, "sys.exit('please log in')\n")
    with pytest.raises(ConfigError, match=r"credential plugin .*python.* ended with code 1"):
        await ask(written(tmp_path, "http://127.0.0.1:1", user=user))
    assert "please log in" in capfd.readouterr().err


HANGS = (
    "import subprocess\n"
    "child = subprocess.Popen(['sleep', '20'], stderr=subprocess.DEVNULL)\n"
    "open('{pids}', 'w').write(str(os.getpid()))\n"
    "time.sleep(600)\n"
)
"""With a child that keeps its output open."""


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def test_a_plugin_that_hangs_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "PLUGIN_TIMEOUT", 2.0)
    user = plugin(tmp_path, HANGS.format(pids=tmp_path / "pid"))
    with pytest.raises(ConfigError, match="has not answered for 2 s"):
        await ask(written(tmp_path, "http://127.0.0.1:1", user=user))
    assert is_gone(int((tmp_path / "pid").read_text()))


def test_a_plugin_nobody_waits_for_is_ended_and_named_in_one_line(tmp_path: Path) -> None:
    user = plugin(tmp_path, HANGS.format(pids=tmp_path / "pid"))
    path = written(tmp_path, "http://127.0.0.1:1", user=user)
    done = subprocess.run(
        [sys.executable, "-m", "resile", "jobs"],
        env={**os.environ, "KUBECONFIG": path, "RESILE_HOME": str(tmp_path / "resile")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (line,) = done.stderr.splitlines()
    assert line.startswith("Warning: no jobs of the cluster: the credential plugin ")
    assert line.endswith("has not answered for 2 s")
    assert is_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("print('hello')\n", "printed no ExecCredential"),
        ("answer()\n", "printed neither a token nor a certificate with its key"),
        ("answer(clientCertificateData='x', clientKeyData='y')\n", "a certificate that is none"),
    ],
)
async def test_an_answer_that_is_none_is_told(tmp_path: Path, body: str, sentence: str) -> None:
    path = written(tmp_path, "http://127.0.0.1:1", user=plugin(tmp_path, body))
    with pytest.raises(ConfigError, match=sentence):
        await ask(path)


async def test_how_to_install_a_plugin_is_told(tmp_path: Path) -> None:
    user = plugin(tmp_path, "", command="no-such", installHint="get it\nfrom us")
    with pytest.raises(ConfigError, match=r"'no-such' cannot be run: .*; get it from us"):
        await ask(written(tmp_path, "http://127.0.0.1:1", user=user))


async def test_a_plugin_of_an_unknown_protocol_is_a_mistake(tmp_path: Path) -> None:
    path = written(
        tmp_path, "http://127.0.0.1:1", user=plugin(tmp_path, "", apiVersion="example.org/v9")
    )
    with pytest.raises(ConfigError, match=r"speaks 'example.org/v9'; known are: .*k8s.io/v1,"):
        KubeClient.connect(kubeconfig=path)
