"""The files of a cgroup that are written and read. They are plain files here; cgroups of version 1
are tested with the kernel itself, and few test machines allow creating those of version 2."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from resile.local.limits.cgroups import MemoryCgroup, limit_cpu
from resile.system.cgroups import Version


def folder_with(tmp_path: Path, **files: str) -> Path:
    for name, text in files.items():
        (tmp_path / name.replace("__", ".")).write_text(text)
    return tmp_path


def test_under_version_2_swap_is_off_and_all_processes_die_together(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, memory__max="", memory__swap__max="", memory__oom__group="")
    MemoryCgroup(Version.V2, folder, limit=4096)
    assert (folder / "memory.max").read_text() == "4096"
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "memory.oom.group").read_text() == "1"


def test_under_version_1_swap_counts_towards_the_limit(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, memory__memsw__limit_in_bytes="")
    MemoryCgroup(Version.V1, folder, limit=4096)
    assert (folder / "memory.limit_in_bytes").read_text() == "4096"
    assert (folder / "memory.memsw.limit_in_bytes").read_text() == "4096"


def test_a_kernel_without_swap_accounting_is_no_obstacle(tmp_path: Path) -> None:
    MemoryCgroup(Version.V1, tmp_path, limit=4096)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memory.limit_in_bytes"]


def test_kills_are_counted_where_each_version_counts_them(tmp_path: Path) -> None:
    folder = folder_with(
        tmp_path,
        memory__events="oom 9\noom_kill 2\n",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    )
    assert MemoryCgroup(Version.V2, folder, limit=1).kills() == 2
    assert MemoryCgroup(Version.V1, folder, limit=1).kills() == 3


def test_file_cache_that_can_be_dropped_is_not_counted_as_used(tmp_path: Path) -> None:
    folder = folder_with(
        tmp_path, memory__current="1000\n", memory__stat="anon 500\ninactive_file 300\n"
    )
    assert MemoryCgroup(Version.V2, folder, limit=1).used() == 700


def test_cpu_is_a_share_of_each_tenth_of_a_second(tmp_path: Path) -> None:
    limit_cpu(Version.V2, tmp_path, cores=Decimal("1.5"))
    assert (tmp_path / "cpu.max").read_text() == "150000 100000"
    limit_cpu(Version.V1, tmp_path, cores=Decimal("0.001"))
    assert (tmp_path / "cpu.cfs_quota_us").read_text() == "1000"
    assert (tmp_path / "cpu.cfs_period_us").read_text() == "100000"
