"""Parsing the kernel's files about cgroups."""

from __future__ import annotations

from pathlib import Path

from resile.system.cgroups import read_keyed


def test_a_counter_is_read_by_its_name(tmp_path: Path) -> None:
    file = tmp_path / "memory.events"
    file.write_text("low 0\noom 3\noom_kill 2\noom_group_kill 1\n")
    assert read_keyed(file, "oom_kill") == 2
    assert read_keyed(file, "missing") == 0
    assert read_keyed(tmp_path / "gone", "oom_kill") == 0
