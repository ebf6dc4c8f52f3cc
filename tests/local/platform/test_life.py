"""Nodes from start to end: their environment, and the reports about them."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from resile import __version__
from resile.job.exits import ExitCause, NodeExit, classify
from resile.job.node import NodePhase
from resile.local.platform import LocalPlatform
from tests.local.platform.conftest import MakePlatform
from tests.local.platform.nodes import (
    appears,
    delete,
    ended,
    gone,
    node,
    python,
    running,
    seen,
    start,
    stop,
)


def log_of(tmp_path: Path, id: int) -> str:
    return (tmp_path / "logs" / f"{node(id).name}.log").read_text()


async def test_a_node_finds_its_identity_its_environment_and_its_folder(
    make: MakePlatform, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FROM_OUTSIDE", "1")
    monkeypatch.setenv("BOTH", "outside")
    monkeypatch.setenv("PET_NNODES", "of another job")
    monkeypatch.setenv("RESILE_NODE_ID", "of another node")
    platform = make(environment={"BOTH": "platform", "ALL": "platform"})
    work = tmp_path / "work"
    work.mkdir()
    code = "import json, os; print(json.dumps([os.getcwd(), dict(os.environ)]))"
    await platform.apply([start(3, *python(code), env={"ALL": "own"}, cwd=work)])
    assert (await ended(platform, 3)).phase is NodePhase.SUCCEEDED
    folder, environment = json.loads(log_of(tmp_path, 3))
    assert folder == str(work)
    assert environment["FROM_OUTSIDE"] == "1"
    assert environment["BOTH"] == "platform"
    assert environment["ALL"] == "own"
    assert "PET_NNODES" not in environment
    told = {name: environment[name] for name in environment if name.startswith("RESILE_NODE")}
    assert told == {
        "RESILE_NODE_NAME": "here-worker-3",
        "RESILE_NODE_RANK": "3",
        "RESILE_NODE_ID": "3",
    }
    assert environment["RESILE_ROLE"] == "worker"


async def test_a_node_leads_a_session_of_its_own_and_has_ordinary_signals(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    code = (
        "import os, signal\n"
        "ignored = [n for n in signal.valid_signals() if signal.getsignal(n) is signal.SIG_IGN]\n"
        "python_own = {signal.SIGPIPE, signal.SIGXFSZ}\n"
        "print(os.getsid(0) == os.getpgid(0) == os.getpid(), set(ignored) <= python_own,"
        " signal.pthread_sigmask(signal.SIG_BLOCK, ()), os.read(0, 1),"
        " len(os.listdir('/proc/self/fd')))"
    )
    await platform.apply([start(0, *python(code))])
    await ended(platform, 0)
    assert log_of(tmp_path, 0) == "True True set() b'' 4\n"


async def test_resile_is_this_installation(platform: LocalPlatform, tmp_path: Path) -> None:
    await platform.apply([start(0, "resile", "--version", env={"PATH": "/nowhere"})])
    assert (await ended(platform, 0)).exit == NodeExit(code=0)
    assert __version__ in log_of(tmp_path, 0)


async def test_both_streams_are_added_to_the_nodes_log(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / f"{node(0).name}.log").write_text("before\n")
    await platform.apply([start(0, "sh", "-c", "echo out; echo err >&2")])
    await ended(platform, 0)
    assert log_of(tmp_path, 0) == "before\nout\nerr\n"


async def test_codes_and_signals_are_reported_as_they_are(platform: LocalPlatform) -> None:
    await platform.apply([start(0, "sh", "-c", "exit 7"), start(1, "sh", "-c", "kill -USR1 $$")])
    first, second = await ended(platform, 0), await ended(platform, 1)
    assert (first.phase, first.exit) == (NodePhase.FAILED, NodeExit(code=7))
    assert (second.phase, second.exit) == (NodePhase.FAILED, NodeExit(signal=signal.SIGUSR1))
    assert first.started_at is not None
    assert first.ended_at is not None
    assert first.started_at <= first.ended_at


async def test_a_killed_node_is_reported_at_once(platform: LocalPlatform) -> None:
    await platform.apply([start(0)])
    await running(platform, 0)
    os.kill(platform.pids()[0], signal.SIGKILL)
    assert (await ended(platform, 0)).exit == NodeExit(signal=signal.SIGKILL)


async def test_a_node_whose_supervisor_is_killed_ends_with_it(platform: LocalPlatform) -> None:
    await platform.apply([start(0, "sh", "-c", "sleep 1000 & wait")])
    await running(platform, 0)
    pid = platform.pids()[0]
    os.kill(_parent(pid), signal.SIGKILL)
    assert (await ended(platform, 0)).exit == NodeExit(signal=signal.SIGKILL)
    await gone(pid)


@pytest.mark.parametrize(
    ("command", "folder", "why"),
    [
        (("no-such-program",), "", "cannot run no-such-program: it is not on the PATH"),
        (("./no-such-file",), "", "cannot run ./no-such-file: there is no such file"),
        (("/etc",), "", "cannot run /etc: Permission denied"),
        (("true",), "missing", "/missing: No such file or directory"),
    ],
)
async def test_what_cannot_be_started_is_told_with_the_reason(
    platform: LocalPlatform, tmp_path: Path, command: tuple[str, ...], folder: str, why: str
) -> None:
    await platform.apply([start(0, *command, cwd=tmp_path / folder)])
    found = await ended(platform, 0)
    assert found.phase is NodePhase.FAILED
    assert found.exit is not None
    assert classify(found.exit) is ExitCause.NEVER_STARTED
    assert why in found.exit.message
    assert found.started_at is None


async def test_a_role_that_leaves_its_command_to_an_image_cannot_run_here(
    platform: LocalPlatform,
) -> None:
    order = start(0)
    await platform.apply([type(order)(**{**vars(order), "command": ()})])
    found = await ended(platform, 0)
    assert found.exit is not None
    assert classify(found.exit) is ExitCause.NEVER_STARTED
    assert "container images are not used on this machine" in found.exit.message


async def test_a_log_that_cannot_be_written_is_told(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    (tmp_path / "logs").write_text("in the way")
    await platform.apply([start(0)])
    found = await ended(platform, 0)
    assert found.exit is not None
    assert classify(found.exit) is ExitCause.NEVER_STARTED
    assert "logs" in found.exit.message


async def test_orders_may_be_repeated(platform: LocalPlatform, tmp_path: Path) -> None:
    order = start(0, "sh", "-c", "echo started; sleep 1000")
    await platform.apply([order, order])
    await appears(tmp_path / "logs" / f"{node(0).name}.log")
    await platform.apply([order, stop(0), stop(0)])
    before = await ended(platform, 0)
    await platform.apply([order, stop(0), stop(99), delete(99)])
    assert platform.observe() == (before,)
    assert log_of(tmp_path, 0) == "started\n"


async def test_an_ended_node_is_listed_until_it_is_deleted(platform: LocalPlatform) -> None:
    await platform.apply([start(0, "true"), start(1, "true")])
    await ended(platform, 0)
    await ended(platform, 1)
    platform.changed.clear()
    await platform.apply([delete(0), delete(0)])
    assert platform.changed.is_set()
    assert [found.node.id for found in platform.observe()] == [1]


async def test_deleting_a_running_node_ends_it_first(platform: LocalPlatform) -> None:
    await platform.apply([start(0)])
    await running(platform, 0)
    pid = platform.pids()[0]
    await platform.apply([delete(0)])
    assert seen(platform, 0).stopping
    while platform.observe():
        await platform.changed.wait()
        platform.changed.clear()
    await gone(pid)


async def test_nothing_is_reported_as_changed_that_has_not(platform: LocalPlatform) -> None:
    await platform.apply([start(0)])
    await running(platform, 0)
    platform.changed.clear()
    await platform.apply([start(0), stop(99)])
    platform.usage()
    assert not platform.changed.is_set()


async def test_twenty_nodes_start_and_end_side_by_side(make: MakePlatform) -> None:
    platform = make("cpu=100")
    await platform.apply([start(id, "sh", "-c", f"exit {id}") for id in range(20)])
    for id in range(20):
        assert (await ended(platform, id)).exit == NodeExit(code=id)


async def test_the_environment_of_a_node_may_hold_any_bytes(
    platform: LocalPlatform, tmp_path: Path
) -> None:
    stray = b"caf\xe9".decode(errors="surrogateescape")
    code = "import os; print(os.environb[b'STRAY'])"
    await platform.apply([start(0, sys.executable, "-c", code, env={"STRAY": stray})])
    await ended(platform, 0)
    assert log_of(tmp_path, 0) == "b'caf\\xe9'\n"


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
