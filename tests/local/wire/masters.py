"""Real master processes for tests, on loopback, with all their state in the test's folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resile.decoding import convert
from resile.job.training import NodeView, TrainingView
from resile.wire.client import Access
from resile.wire.endpoint import Endpoint

TOKEN = "a-token-that-only-the-tests-know"
ANSWER_TIMEOUT = 30.0


def bearer(token: str) -> dict[str, str]:
    """The header with the token itself, as Prometheus sends it."""
    return {"Authorization": f"Bearer {token}"}


@dataclass
class MasterProcess:
    """One `resile master`."""

    process: subprocess.Popen[bytes]
    endpoint: Endpoint
    folder: Path
    token: str = TOKEN

    @property
    def access(self) -> Access:
        return Access(self.endpoint, self.token)

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    @property
    def log(self) -> str:
        return (self.folder / "master.out").read_text(errors="replace")

    def ask(
        self,
        path: str,
        *,
        token: str | None = TOKEN,
        method: str = "GET",
        body: bytes | None = None,
    ) -> tuple[int, Any]:
        """The status and the JSON of a response, also of an error."""
        request = urllib.request.Request(f"http://{self.endpoint}{path}", body, method=method)
        if token is not None:
            request.add_header("Authorization", bearer(token)["Authorization"])
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_TIMEOUT) as answer:
                return answer.status, _parsed(answer.read())
        except urllib.error.HTTPError as refusal:
            return refusal.code, _parsed(refusal.read())

    def status(self) -> TrainingView:
        """The job's status."""
        code, shown = self.ask("/v1/status")
        assert code == 200, shown
        return convert(shown, TrainingView)

    def node(self, number: int) -> NodeView | None:
        """One node in the status, if it is there."""
        found = [node for node in self.status().nodes.values() if node.member == number]
        return found[0] if found else None


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return body.decode()


def environment(folder: Path, **more: str) -> dict[str, str]:
    """This process's environment, with all state of Resile in ``folder``."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RESILE_")}
    return {**kept, "RESILE_HOME": str(folder / "home"), **more}


def resile(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "resile", *words],
        env=environment(folder, **variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@contextmanager
def running_master(
    folder: Path, *flags: str, token: str | None = TOKEN, descriptors: int | None = None
) -> Iterator[MasterProcess]:
    """A master on a free port, once it listens; ended with the block. ``descriptors``: the limit of
    its open files."""
    folder.mkdir(parents=True, exist_ok=True)
    read, write = os.pipe()
    command = [sys.executable, "-m", "resile", "master", "--announce-fd", str(write)]
    if "--endpoint" not in flags:
        command += ["--endpoint", "127.0.0.1:0"]
    if descriptors is not None:
        command = ["sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *command]
    secret = {} if token is None else {"RESILE_TOKEN": token}
    with open(folder / "master.out", "wb") as output:
        process = subprocess.Popen(
            [*command, *flags],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(write,),
            env=environment(folder, **secret),
        )
    os.close(write)
    try:
        with open(read) as announced:
            host, _, port = announced.read().strip().rpartition(" ")
        assert port, (folder / "master.out").read_text()
        yield MasterProcess(process, Endpoint(host, int(port)), folder, token=token or "")
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
