"""Temporary folders of agents: in use while they are locked; other users' files are kept."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from resile.agent.logs import LogRouting, log_root

HOLDER = """
import sys
from resile.agent.logs import LogRouting, log_root
root = log_root(LogRouting(), "j")
print(root.path, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for all users' temporary files."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


@contextmanager
def another_agent(shared: Path, *prefix: str) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A process that has a folder, and the folder."""
    process = subprocess.Popen(
        [*prefix, sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(shared)},
    )
    try:
        assert process.stdout is not None
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.communicate()


def ours(shared: Path) -> Path:
    return shared / f"resile-{os.getuid()}"


def test_folders_of_killed_agents_are_removed(shared: Path) -> None:
    with another_agent(shared) as (process, folder):
        (folder / "attempt_0").mkdir()
        process.kill()
        process.wait()
    root = log_root(LogRouting(), "j")
    assert not folder.exists()
    root.remove()
    assert list(shared.iterdir()) == []


def test_folders_of_living_agents_stay(shared: Path) -> None:
    with another_agent(shared) as (_, folder):
        root = log_root(LogRouting(), "j")
        assert folder.exists()
        root.remove()
        assert folder.exists()


NAMESPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")


def can_have_a_pid_namespace() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_have_a_pid_namespace(), reason="needs a pid namespace of its own")
def test_agents_in_separate_pid_namespaces_leave_each_others_folders_alone(shared: Path) -> None:
    with (
        another_agent(shared, *NAMESPACE, "--mount-proc") as (_, folder),
        another_agent(shared, *NAMESPACE, "--mount-proc") as (_, other),
    ):
        root = log_root(LogRouting(), "j")
        assert folder.exists()
        assert other.exists()
        assert root.path.exists()
        assert len({folder, other, root.path}) == 3
        root.remove()


def test_a_link_in_the_folders_place_leads_to_no_removal(shared: Path, tmp_path: Path) -> None:
    precious = tmp_path / "checkpoints" / "agent-precious"
    precious.mkdir(parents=True)
    ours(shared).symlink_to(precious.parent)
    root = log_root(LogRouting(), "j")
    assert precious.exists()
    assert root.path.parent == shared
    root.remove()
    assert precious.exists()


def test_a_folder_that_others_can_write_is_not_used(shared: Path) -> None:
    precious = ours(shared) / "agent-precious"
    precious.mkdir(parents=True)
    ours(shared).chmod(0o777)
    root = log_root(LogRouting(), "j")
    assert root.path.parent == shared
    assert precious.exists()
    root.remove()


def test_what_is_no_agents_folder_stays(shared: Path) -> None:
    ours(shared).mkdir(mode=0o700)
    (ours(shared) / "12345").mkdir()
    root = log_root(LogRouting(), "j")
    assert (ours(shared) / "12345").exists()
    root.remove()
