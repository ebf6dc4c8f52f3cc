"""Enforced limits: memory by the kernel or by polling, cpu by the kernel."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from resile.job.exits import ExitCause, classify
from resile.job.node import NodePhase
from resile.local.errors import NoCgroupError
from resile.local.limits.node_limits import MemoryEnforcement
from resile.local.platform import LocalPlatform
from resile.system.cgroups import Version, find_hierarchy
from tests.local.jobs import is_alive
from tests.local.platform.conftest import MakePlatform, has_cgroup, needs_cgroup
from tests.local.platform.nodes import appears, ended, python, running, seen, start

HOG = "import time; hoard = bytearray(256 * 1024 * 1024); time.sleep(1000)"
BOTH_WAYS = pytest.mark.parametrize(
    "memory",
    [
        pytest.param(MemoryEnforcement.CGROUP, marks=needs_cgroup("memory")),
        MemoryEnforcement.WATCH,
    ],
)


@BOTH_WAYS
async def test_a_node_over_its_memory_limit_is_killed_and_told_so(
    make: MakePlatform, memory: MemoryEnforcement
) -> None:
    platform = make(memory=memory)
    await platform.apply([start(0, *python(HOG), memory="64Mi")])
    found = await ended(platform, 0)
    assert found.phase is NodePhase.FAILED
    assert found.exit is not None
    assert found.exit.oom
    assert classify(found.exit) is ExitCause.OUT_OF_MEMORY
    assert "64Mi" in found.exit.message


@BOTH_WAYS
async def test_a_node_ends_as_a_whole_when_one_of_its_workers_is_too_large(
    make: MakePlatform, memory: MemoryEnforcement, tmp_path: Path
) -> None:
    """Like an agent, it restarts the worker again and again, and does not end by itself."""
    platform = make(memory=memory)
    hog = tmp_path / "hog.py"
    hog.write_text(HOG)
    bystander = "sleep 1000 & echo $! > bystander;"
    agent = f"{bystander} while :; do {' '.join(python('')[:3])} hog.py; sleep 0.1; done"
    await platform.apply([start(0, "sh", "-c", agent, cwd=tmp_path, memory="64Mi")])
    other = int(await appears(tmp_path / "bystander"))
    found = await ended(platform, 0)
    assert found.exit is not None
    assert found.exit.oom
    assert not is_alive(other)


@BOTH_WAYS
async def test_memory_that_processes_share_counts_once(
    make: MakePlatform, memory: MemoryEnforcement, tmp_path: Path
) -> None:
    platform = make(memory=memory)
    code = (
        "import os, time\n"
        "shared = b'x' * (40 * 1024 * 1024)\n"
        "children = [pid for pid in (os.fork() for _ in range(2)) if pid]\n"
        "len(children) == 2 and open('forked', 'w').write('yes\\n')\n"
        "time.sleep(1000)"
    )
    await platform.apply([start(0, *python(code), cwd=tmp_path, memory="100Mi")])
    await appears(tmp_path / "forked")
    await platform.apply([start(1, *python(HOG), memory="64Mi")])
    await ended(platform, 1)  # by then the first was checked as well
    assert seen(platform, 0).phase is NodePhase.RUNNING
    used = platform.usage()[0].memory
    assert 40 * 1024**2 < used < 100 * 1024**2


@BOTH_WAYS
async def test_the_log_says_once_how_limits_are_kept(
    make: MakePlatform, memory: MemoryEnforcement, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="resile.platform")
    platform = make(memory=memory)
    await platform.apply([start(id, "true", memory="64Mi", cpu="1") for id in range(2)])
    await ended(platform, 0)
    await ended(platform, 1)
    said = [text for text in caplog.messages if "memory limits are enforced" in text]
    assert len(said) == 1
    expected = {
        MemoryEnforcement.CGROUP: "by the kernel (cgroup version ",
        MemoryEnforcement.WATCH: "by polling every 0.2 s",
    }
    assert f"memory limits are enforced {expected[memory]}" in said[0]


async def test_what_is_not_modelled_is_mentioned_once(
    platform: LocalPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="resile.platform")
    await platform.apply([start(id, "true", **{"nvidia.com/gpu": "8"}) for id in range(2)])
    await ended(platform, 0)
    await ended(platform, 1)
    assert len([text for text in caplog.messages if "nvidia.com/gpu" in text]) == 1


@needs_cgroup("memory")
async def test_a_node_without_a_limit_is_left_alone(make: MakePlatform, tmp_path: Path) -> None:
    platform = make(memory=MemoryEnforcement.CGROUP)
    code = "hoard = bytearray(100 * 1024 * 1024); print(hoard.count(0) > 0)"
    await platform.apply([start(0, *python(code))])
    assert (await ended(platform, 0)).phase is NodePhase.SUCCEEDED


@pytest.mark.skipif(has_cgroup("memory"), reason="a memory cgroup can be made on this machine")
async def test_a_cgroup_that_is_insisted_on_and_cannot_be_had_is_an_error(
    make: MakePlatform,
) -> None:
    with pytest.raises(NoCgroupError, match="no memory cgroup can be created"):
        make(memory=MemoryEnforcement.CGROUP)


@needs_cgroup("cpu")
async def test_a_cpu_limit_is_a_quota_of_the_nodes_own_cgroup(platform: LocalPlatform) -> None:
    await platform.apply([start(0, cpu="250m")])
    await running(platform, 0)
    hierarchy = find_hierarchy("cpu")
    assert hierarchy is not None
    folder = cgroup_of(platform.pids()[0], "cpu", hierarchy.mount)
    assert folder.name == "here-worker-0"
    if hierarchy.version is Version.V1:
        assert (folder / "cpu.cfs_quota_us").read_text().strip() == "25000"
    else:
        assert (folder / "cpu.max").read_text().split()[0] == "25000"


@needs_cgroup("memory")
@needs_cgroup("cpu")
async def test_cgroups_go_with_their_nodes_and_with_the_platform(platform: LocalPlatform) -> None:
    await platform.apply([start(0, memory="64Mi", cpu="1")])
    await running(platform, 0)
    folders = []
    for controller in ("memory", "cpu"):
        hierarchy = find_hierarchy(controller)
        assert hierarchy is not None
        folders.append(cgroup_of(platform.pids()[0], controller, hierarchy.mount))
    assert all(folder.is_dir() for folder in folders)
    await platform.close(grace=0)
    assert not any(folder.exists() or folder.parent.exists() for folder in folders)


def cgroup_of(pid: int, controller: str, mount: Path) -> Path:
    for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(",") or not names:
            found = mount / path.lstrip("/")
            if found.is_dir() and found != mount:
                return found
    raise AssertionError(f"process {pid} is in no {controller} cgroup of its own")
