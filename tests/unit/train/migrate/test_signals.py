"""The paths of a migration's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from resile.train.migrate.signals import MigrationFiles


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("MIGRATION_CKPT_PATH", "MIGRATION_SIGNAL_PATH"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("value", [None, ""], ids=["unset", "empty"])
def test_they_lie_in_ckpts_unless_the_variables_say_otherwise(
    value: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is not None:
        monkeypatch.setenv("MIGRATION_CKPT_PATH", value)
        monkeypatch.setenv("MIGRATION_SIGNAL_PATH", value)
    files = MigrationFiles.from_environment()
    assert files.checkpoint == tmp_path / "ckpts" / "migration.pth"
    assert files.signal == tmp_path / "ckpts" / "signal"
    assert files.prestop_log == tmp_path / "ckpts" / "preStop.log"
    assert files.poststart_log == tmp_path / "ckpts" / "postStart.log"
    assert files.claim == tmp_path / "ckpts" / ".migration.pth.claim"


def test_each_variable_moves_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIGRATION_CKPT_PATH", "/mnt/a/state.pth")
    assert MigrationFiles.from_environment().signal == tmp_path / "ckpts" / "signal"
    monkeypatch.setenv("MIGRATION_SIGNAL_PATH", "/mnt/b/word")
    files = MigrationFiles.from_environment()
    assert (files.checkpoint, files.signal) == (Path("/mnt/a/state.pth"), Path("/mnt/b/word"))
    assert files.prestop_log == Path("/mnt/b/preStop.log")
    assert MigrationFiles.from_environment(signal="here").signal == tmp_path / "here"
