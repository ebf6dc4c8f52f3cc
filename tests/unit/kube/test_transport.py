"""A kubeconfig's effects on every request, seen from the server's side; and credential plugins."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from resile.kube import auth
from resile.kube.client import KubeClient
from resile.kube.errors import ApiError, ApiUnreachable, ConfigError
from resile.kube.resources import PODS
from tests.unit.kube.listener import ask, listening, written


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


async def test_a_server_behind_tls_is_reached_through_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy is asked for a connection; its error is reported if it refuses."""
    async with listening() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.replace("//", "//me:secret@"))
        monkeypatch.setenv("NO_PROXY", "")
        proxy.status = "407 Who are you"
        with pytest.raises(ApiUnreachable, match=r"the proxy answered 407 Who are you$"):
            await ask(written(tmp_path, "https://one.example:6443", user={"token": "t"}))
    assert proxy.heads[0][0].startswith("CONNECT one.example:6443 ")
    assert proxy.values("Proxy-Authorization") == ["Basic bWU6c2VjcmV0"]
    assert proxy.values("Authorization") == [], "the proxy is not to know who we are"


async def test_a_server_may_have_a_path(tmp_path: Path) -> None:
    async with listening() as listener:
        path = written(tmp_path, f"{listener.url}/k8s/clusters/one/", user={})
        async with KubeClient.connect(kubeconfig=path) as client:
            await client.list(PODS, namespace="a", labels="x=a b,y")
    line = listener.heads[0][0]
    assert line.startswith("GET /k8s/clusters/one/api/v1/namespaces/a/pods?labelSelector=")
    query = parse_qs(urlsplit(line.split()[1]).query)
    assert query == {"labelSelector": ["x=a b,y"], "limit": ["500"]}


@pytest.mark.parametrize(
    "server", ["one.example:6443", "ftp://one.example", "https://", "https://["]
)
async def test_an_address_that_is_none_is_a_mistake(tmp_path: Path, server: str) -> None:
    path = written(tmp_path, server, user={})
    with pytest.raises(ConfigError, match=r"cluster 'c' has the 'server' .* not a URL such as"):
        KubeClient.connect(kubeconfig=path)


async def test_a_password_is_sent(tmp_path: Path) -> None:
    async with listening() as listener:
        await ask(written(tmp_path, listener.url, user={"username": "zoë", "password": "p"}))
    assert listener.values("Authorization") == ["Basic em/Dqzpw"]


@pytest.mark.parametrize("user", [{"token": "a\nb"}, {"token": "t", "as": "a\r\nHost: b"}])
async def test_a_line_break_in_credentials_is_a_mistake(
    tmp_path: Path, user: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match="hold a line break"):
        await ask(written(tmp_path, "http://127.0.0.1:1", user=user))


async def test_a_token_file_is_read_again_when_its_token_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("old\n")
    user = {"tokenFile": "token", "token": "another"}
    async with (
        listening() as listener,
        KubeClient.connect(kubeconfig=written(tmp_path, listener.url, user=user)) as client,
    ):
        await client.list(PODS)
        (tmp_path / "token").write_text("new\n")
        await client.list(PODS)
        assert listener.values("Authorization") == ["Bearer old"], "not read for every request"
        listener.refused.add("Bearer old")
        await client.list(PODS)
        assert listener.values("Authorization") == ["Bearer new"]
        listener.refused.add("Bearer new")
        requests = len(listener.heads)
        with pytest.raises(ApiError) as refused:
            await client.list(PODS)
        assert refused.value.status == 401
        assert len(listener.heads) == requests + 1, "the same token would be refused again"
        (tmp_path / "token").unlink()
        with pytest.raises(ConfigError, match=r"token file .*/token cannot be read: No such file"):
            await client.list(PODS)


# --- credential plugins ---------------------------------------------------------------------


def plugin(folder: Path, body: str, **more: Any) -> dict[str, Any]:
    """A user whose credentials a script prints: ``n`` counts its calls."""
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
    with pytest.raises(ConfigError, match=r"credential plugin .*python.* exited with code 1"):
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
    monkeypatch.setattr(auth, "PLUGIN_TIMEOUT", 2.0)
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
        ("print('hello')\n", "did not print an ExecCredential"),
        ("answer()\n", "printed neither a token nor a certificate with its key"),
        ("answer(clientCertificateData='x', clientKeyData='y')\n", "that cannot be used"),
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
    with pytest.raises(ConfigError, match=r"uses 'example.org/v9'; supported are: .*k8s.io/v1,"):
        KubeClient.connect(kubeconfig=path)
