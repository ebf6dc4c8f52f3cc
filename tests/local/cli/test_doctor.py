"""`resile doctor` on machines that lack something."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.local.wire.masters import running_master


def doctor(folder: Path, *words: str, limit: int | None = None, **variables: str) -> Any:
    """Return the exit code, and the findings by check."""

    def lower() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    kept = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    home = {"HOME": str(folder), "RESILE_HOME": str(folder / "state")}
    done = subprocess.run(
        [sys.executable, "-m", "resile", "doctor", "-o", "json", *words],
        env={**kept, **home, **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lower,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, {one["check"]: one for one in json.loads(done.stdout)}


def test_a_whole_machine_passes_and_nothing_is_left_behind(tmp_path: Path) -> None:
    code, found = doctor(tmp_path)
    assert code == 0
    assert found["python"]["level"] == "ok"
    assert found["kubeconfig"]["level"] == "note"
    assert list(tmp_path.iterdir()) == []
    assert set(found) > {"cgroups", "namespaces", "ptrace", "shared memory", "torch"}


def test_few_descriptors_are_a_warning(tmp_path: Path) -> None:
    code, found = doctor(tmp_path, limit=256)
    assert code == 0
    assert found["open files"]["level"] == "warning"
    assert "at most 128 nodes" in found["open files"]["advice"]


def test_a_state_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    """/proc refuses new files to everybody, root included."""
    code, found = doctor(tmp_path, RESILE_HOME="/proc/self/resile")
    assert code == 1
    assert found["state folder"]["level"] == "error"
    assert "$RESILE_HOME" in found["state folder"]["advice"]


def test_a_port_that_something_else_has_is_a_warning(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        _, found = doctor(tmp_path, "--rdzv-endpoint", f"127.0.0.1:{port}")
    assert found[f"port {port}"]["level"] == "warning"
    assert "--rdzv-endpoint" in found[f"port {port}"]["advice"]


def test_a_port_that_a_master_has_is_fine(tmp_path: Path) -> None:
    with running_master(tmp_path / "master") as master:
        _, found = doctor(tmp_path, "--rdzv-endpoint", str(master.endpoint))
    there = found[f"port {master.endpoint.port}"]
    assert there["level"] == "ok"
    assert "a Resile master listens" in there["found"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_completion(shell: str) -> None:
    words = [sys.executable, "-m", "resile", "completion", shell]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    assert "_RESILE_COMPLETE" in done.stdout


@pytest.mark.parametrize(
    ("words", "wanted"),
    [("resile des", "describe"), ("resile run --nproc", "--nproc-per-node")],
)
def test_commands_and_flags_are_completed(words: str, wanted: str) -> None:
    asked = {"_RESILE_COMPLETE": "bash_complete", "COMP_WORDS": words}
    done = subprocess.run(
        [sys.executable, "-c", "from resile.cli.main import main; main()"],
        env={**os.environ, **asked, "COMP_CWORD": str(len(words.split()) - 1)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert f"plain,{wanted}" in done.stdout.splitlines()
