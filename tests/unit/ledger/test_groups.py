"""Two groups that write into one ledger are two trainings; an old ledger is the main group's."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from resile.cli.main import cli
from resile.ledger import Ledger, check, read_ledger

BEFORE = Path(__file__).parent / "before_groups"
"""Written by Resile without groups: one epoch of four samples."""


def train(folder: Path, group: str | None = None) -> None:
    ledger = Ledger(folder, "data-0", length=4, rank=0, world=1, round="job@host:1/1", group=group)
    ledger.record(1, 0, [0, 2], total=2)
    ledger.record(2, 0, [1, 3], total=2)


def test_what_two_groups_trained_is_judged_each_for_itself(tmp_path: Path) -> None:
    for group in ("", "evaluate"):
        train(tmp_path, group)
    verdict = check(read_ledger(tmp_path), epochs=1)
    assert verdict.sound
    assert [(one.group, one.name, one.steps) for one in verdict.streams] == [
        ("", "data-0", 2),
        ("evaluate", "data-0", 2),
    ]
    shown = CliRunner().invoke(cli, ["data", "check", str(tmp_path)]).stdout.splitlines()
    assert shown[0].startswith("data-0: 2 steps count")
    assert shown[2].startswith("data-0 of group 'evaluate': 2 steps count")


def test_a_worker_writes_down_the_group_that_it_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESILE_GROUP", "worker/3")
    train(tmp_path)
    (stream,) = read_ledger(tmp_path)
    assert stream.group == "worker/3"


def test_an_old_ledger_is_the_main_groups(tmp_path: Path) -> None:
    (stream,) = check(read_ledger(BEFORE), epochs=1).streams
    assert stream.sound
    assert (stream.group, stream.steps) == ("", 2)
    train(tmp_path, "")
    (written,) = tmp_path.iterdir()
    assert "group" not in written.read_text()
