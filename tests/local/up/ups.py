"""Real `resile up` processes for tests, and the commands used on them from another terminal.

Every process of a job is recognised by the $RESILE_HOME it inherited, which is the test's own; so
"nothing is left" includes all processes, and those left when a test ends are killed by pid.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest

from resile.client.up_client import UpClient
from resile.job.addresses import Addresses
from resile.job.view import document
from resile.local.jobdir import JobDir
from resile.system.loop_thread import run_in_thread
from resile.wire.auth import read_token
from resile.wire.client import Access
from resile.wire.endpoint import Endpoint
from resile.wire.errors import WireError
from resile.wire.http_client import ask_addresses
from tests.local.commands import Command, wait_for
from tests.warm_commands import resile_command

PROGRAMS = Path(__file__).parent / "programs"


def manifest(name: str, roles: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A manifest as data."""
    return {
        "apiVersion": "resile.dev/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": name},
        "spec": {"roles": roles, **spec},
    }


def ticking(*, replicas: Any = 1, **env: str) -> dict[str, Any]:
    """A training role that reports steps and imports next to nothing."""
    return {"replicas": replicas, "script": str(PROGRAMS / "tick.py"), "env": env}


def waiting(gate: Path, **more: Any) -> dict[str, Any]:
    """A role of plain commands that end when ``gate`` is written, with the code in it."""
    return {"command": [sys.executable, str(PROGRAMS / "gate.py"), str(gate)], **more}


@dataclass
class Machine:
    """A user on a machine, with a separate state folder."""

    folder: Path
    ups: list[Command] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def env(self, **more: str) -> dict[str, str]:
        # The developer's own cluster must not be used.
        outside = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        return {
            **outside,
            "RESILE_HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.folder.parent / "resile-test-cache"),
            "STEPS_FILE": str(self.folder / "steps.jsonl"),
            "OMP_NUM_THREADS": "1",
            **more,
        }

    def write(self, described: dict[str, Any]) -> Path:
        path = self.folder / f"{described['metadata']['name']}.json"
        path.write_text(json.dumps(described))
        return path

    def up(self, described: dict[str, Any], *flags: str) -> Command:
        """Start a job."""
        output_file = self.folder / f"up{len(self.ups)}.log"
        with open(output_file, "wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "resile", "up", str(self.write(described)), *flags],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.env(),
                cwd=self.folder,
                start_new_session=True,
            )
        started = Command(process, output_file)
        self.ups.append(started)
        return started

    def resile(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run another command to its end."""
        return subprocess.run(
            [*resile_command(), *words],
            capture_output=True,
            text=True,
            env=self.env(),
            cwd=self.folder,
            timeout=90,
            check=False,
        )

    def says(self, *words: str) -> str:
        """Return the output of a command that must succeed."""
        done = self.resile(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refuses(self, *words: str) -> str:
        """Return the errors of a command that must fail."""
        done = self.resile(*words)
        assert done.returncode != 0, done.stdout
        assert "Traceback" not in done.stderr
        return done.stderr

    # --- what is there ----------------------------------------------------------------------

    def job(self, name: str) -> JobDir:
        return JobDir(name)

    def view(self, name: str) -> dict[str, Any]:
        """The job as its `up` shows it; empty while it is not running."""
        try:
            return document(run_in_thread(UpClient(self.job(name)).view()))
        except WireError:
            return {}

    def nodes(self, name: str) -> list[dict[str, Any]]:
        return list(self.view(name).get("nodes", []))

    def await_nodes(self, name: str, **wanted: Any) -> list[dict[str, Any]]:
        """Wait until a node matches ``wanted``; returns all that do."""

        def found() -> list[dict[str, Any]]:
            return [n for n in self.nodes(name) if wanted.items() <= n.items()]

        try:
            return wait_for(found, f"a node with {wanted}")
        except AssertionError as error:
            log = "\n".join(up.output[-3000:] for up in self.ups)
            raise AssertionError(f"{error}; nodes are {self.nodes(name)}\n{log}") from None

    def await_training(self, name: str, *, nodes: int, after: int = 0) -> int:
        """Wait for a later round than ``after`` in which this many nodes train; return it."""

        def found() -> int:
            training = self.view(name).get("training") or {}
            stepping = [
                n for n in self.nodes(name) if n["state"] == "running" and n["step"] is not None
            ]
            late = training.get("round", 0) > after and training.get("phase") == "running"
            return int(training["round"]) if late and len(stepping) == nodes else 0

        try:
            return wait_for(found, f"a round after {after} of {nodes} nodes")
        except AssertionError as error:
            log = "\n".join(up.output[-4000:] for up in self.ups)
            raise AssertionError(f"{error}\n{log}") from None

    def events(self, name: str) -> list[tuple[str, str]]:
        """Kind and text of all events."""
        said = self.says("events", name, "-o", "json")
        return [(event["kind"], event["text"]) for event in map(json.loads, said.splitlines())]

    def processes(self) -> list[psutil.Process]:
        """Everything that runs with this home."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied, OSError):
                if process.status() != psutil.STATUS_ZOMBIE:
                    home = process.environ().get("RESILE_HOME")
                    if home == str(self.home) and process.pid != os.getpid():
                        found.append(process)
        return found

    def master_pid(self) -> int:
        found = [p.pid for p in self.processes() if "master" in p.cmdline()]
        assert len(found) == 1, found
        return found[0]

    def addresses_at_master(self, name: str) -> Addresses:
        """The nodes' addresses, from the job's master."""
        (port,) = {
            connection.laddr.port
            for connection in psutil.Process(self.master_pid()).net_connections()
            if connection.status == psutil.CONN_LISTEN
        }
        token = read_token(self.job(name).token_file)
        return run_in_thread(ask_addresses(Access(Endpoint("127.0.0.1", port), token)))

    def has_nothing_left(self) -> None:
        """Wait until no process with this home runs."""
        wait_for(lambda: not self.processes(), f"the end of {self.processes()}")

    def close(self) -> None:
        """End the remaining processes, by pid."""
        for up in self.ups:
            if up.process.poll() is None:
                up.process.kill()
            up.process.wait()
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine that is clean again after the test."""
    monkeypatch.setenv("RESILE_HOME", str(tmp_path / "home"))
    made = Machine(tmp_path)
    try:
        yield made
    finally:
        made.close()
