"""The remaining memory, from the kernel's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from resile.checkpoint.errors import NoMemoryForSnapshot
from resile.snapshots.memory_budget import MemoryBudget, check_budget, find_budget

V1 = "30 23 0:26 / {mount} rw,relatime shared:9 - cgroup cgroup rw,memory\n"
V2 = "30 23 0:26 {root} {mount} rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
MEBIBYTE = 1 << 20


def proc(folder: Path, *, mountinfo: str, membership: str, available: int = 8 << 30) -> Path:
    (folder / "self").mkdir(parents=True)
    (folder / "meminfo").write_text(
        f"MemTotal: {(16 << 30) // 1024} kB\nMemAvailable: {available // 1024} kB\n"
    )
    (folder / "self/mountinfo").write_text(mountinfo)
    (folder / "self/cgroup").write_text(membership)
    return folder


def test_the_machine_is_asked_first_and_a_reserve_is_kept(tmp_path: Path) -> None:
    room = find_budget(proc=proc(tmp_path, mountinfo="", membership="0::/\n"))
    assert room.free == 7 << 30
    assert "machine" in room.limited_by


def test_a_cgroup_of_version_2_with_less_wins(tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    (mount / "job").mkdir(parents=True)
    (mount / "job/memory.max").write_text(f"{1600 * MEBIBYTE}\n")
    (mount / "job/memory.current").write_text(f"{1000 * MEBIBYTE}\n")
    (mount / "job/memory.stat").write_text(f"anon 5\ninactive_file {200 * MEBIBYTE}\n")
    folder = proc(
        tmp_path / "proc",
        mountinfo=V2.format(root="/", mount=mount),
        membership="0::/job\n",
    )
    room = find_budget(proc=folder)
    assert room.free == 700 * MEBIBYTE
    assert str(mount / "job") in room.limited_by


def test_a_cgroup_of_version_1_above_the_own_one_counts_too(tmp_path: Path) -> None:
    mount = tmp_path / "memory"
    (mount / "pod/worker").mkdir(parents=True)
    for name, limit in (("pod/worker", 2**63 - 4096), ("pod", 320 * MEBIBYTE)):
        (mount / name / "memory.limit_in_bytes").write_text(f"{limit}\n")
        (mount / name / "memory.usage_in_bytes").write_text(f"{100 * MEBIBYTE}\n")
    folder = proc(
        tmp_path / "proc",
        mountinfo=V1.format(mount=mount),
        membership="9:name=systemd:/\n4:memory:/pod/worker\n0::/\n",
    )
    assert find_budget(proc=folder).free == 200 * MEBIBYTE


@pytest.mark.parametrize("membership", ["0::/pods/one/sub\n", "0::/\n"])
def test_a_container_sees_its_own_cgroup_at_the_mount(tmp_path: Path, membership: str) -> None:
    mount = tmp_path / "cgroup"
    mount.mkdir()
    (mount / "memory.max").write_text(f"{320 * MEBIBYTE}\n")
    (mount / "memory.current").write_text(f"{100 * MEBIBYTE}\n")
    mountinfo = V2.format(root="/pods/one", mount=mount)
    folder = proc(tmp_path / "proc", mountinfo=mountinfo, membership=membership)
    assert find_budget(proc=folder).free == 200 * MEBIBYTE


def test_what_does_not_fit_is_told_with_numbers() -> None:
    room = MemoryBudget(free=int(0.9 * (1 << 30)), limited_by="on this machine")
    with pytest.raises(
        NoMemoryForSnapshot,
        match=r"snapshot of 1\.2 GiB needs 2\.4 GiB of memory for two buffers, 921\.6 MiB is free",
    ):
        check_budget(int(1.2 * (1 << 30)), int(2.4 * (1 << 30)), room=room)
