"""The resource usage of a container, read from its cgroup's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from resile.agent.container_usage import INTERVAL, ContainerMeter, is_the_machines
from resile.system.cgroups import Version
from resile.wire.messages import Usage

MEBI = 1024**2


def write(folder: Path, version: Version, *, seconds: float, memory: int, cache: int) -> None:
    if version is Version.V2:
        (folder / "cpu.stat").write_text(f"usage_usec {round(seconds * 1e6)}\nuser_usec 1\n")
        (folder / "memory.current").write_text(f"{memory}\n")
        (folder / "memory.stat").write_text(f"anon 5\ninactive_file {cache}\n")
    else:
        (folder / "cpuacct.usage").write_text(f"{round(seconds * 1e9)}\n")
        (folder / "memory.usage_in_bytes").write_text(f"{memory}\n")
        (folder / "memory.stat").write_text(f"inactive_file 1\ntotal_inactive_file {cache}\n")


@pytest.mark.parametrize("version", Version)
def test_cores_since_the_last_reading_and_memory_without_idle_file_pages(
    tmp_path: Path, version: Version
) -> None:
    meter = ContainerMeter((version, tmp_path), (version, tmp_path))
    write(tmp_path, version, seconds=10, memory=300 * MEBI, cache=100 * MEBI)
    assert meter.read(100.0) == Usage(cpu=None, memory=200 * MEBI)
    write(tmp_path, version, seconds=16, memory=300 * MEBI, cache=400 * MEBI)
    assert meter.read(104.0) == Usage(cpu=1.5, memory=0)


def test_it_is_not_read_at_every_question(tmp_path: Path) -> None:
    meter = ContainerMeter((Version.V2, tmp_path), (Version.V2, tmp_path))
    write(tmp_path, Version.V2, seconds=10, memory=5, cache=0)
    first = meter.read(100.0)
    write(tmp_path, Version.V2, seconds=20, memory=7, cache=0)
    assert meter.read(100.0 + INTERVAL / 2) is first
    assert meter.read(100.0 + INTERVAL) == Usage(cpu=5.0, memory=7)


def test_what_cannot_be_read_is_not_told(tmp_path: Path) -> None:
    for version in Version:
        empty = ContainerMeter((version, tmp_path / "gone"), (version, tmp_path / "gone"))
        assert empty.read(1.0) is None
        assert empty.read(9.0) is None
    assert ContainerMeter(None, None).read(1.0) is None


def test_the_machines_own_cgroup_is_no_containers(tmp_path: Path) -> None:
    assert not is_the_machines(Version.V1, tmp_path)
    assert is_the_machines(Version.V2, tmp_path)
    (tmp_path / "release_agent").touch()
    (tmp_path / "cgroup.events").touch()
    assert is_the_machines(Version.V1, tmp_path)
    assert not is_the_machines(Version.V2, tmp_path)
