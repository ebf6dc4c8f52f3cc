"""A migrator in one process, without a launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from resile.train.migrate import variable
from resile.train.migrate.errors import MigrationMistake
from resile.train.migrate.migrator import Migrator
from resile.train.migrate.variable import MigratableVariable
from tests.local.commands import wait_for


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MIGRATION_CKPT_PATH", str(tmp_path / "migration.pth"))
    monkeypatch.setenv("MIGRATION_SIGNAL_PATH", str(tmp_path / "signal"))
    return tmp_path


def step_until_saved(migrator: Migrator, volume: Path) -> None:
    """Take steps until the migrator ends the process."""
    (volume / "signal").write_text("save")

    def step() -> bool:
        try:
            migrator.step()
        except SystemExit as end:
            return not end.code
        return False

    wait_for(step, "the save")


def test_a_marked_step_is_saved_and_resumed(
    volume: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Migrator()
    metrics = {"best": 0.0}
    first.register("metrics", metrics)
    first.listening(0.01, linger=0)
    assert not first.resume
    metrics["best"] = 85.56
    step_until_saved(first, volume)
    said = [line[20:] for line in capsys.readouterr().out.splitlines()]
    assert said == ["save migrate ckpt", "saved ckpt!"]
    assert (volume / "signal").read_text() == "resume"

    second = Migrator()
    restored = {"best": 0.0}
    second.register("metrics", restored)
    assert second.resume
    second.load_ckpt()
    assert restored == {"best": 85.56}
    assert (volume / "signal").read_text() == "init"


def test_variables_are_restored_where_they_are_made(
    volume: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for best, expected in ((85.56, 0.0), (0.0, 85.56)):
        migrator = Migrator()
        migrator.listening(0.01, linger=0)
        monkeypatch.setattr(variable, "migrator", migrator)
        score = MigratableVariable(0.0, "best")
        seen = MigratableVariable([])
        assert score.value == expected
        assert seen == ([1, 2] if expected else [])
        if best:
            score.value = best
            seen += [1, 2]
            step_until_saved(migrator, volume)
    assert (volume / "signal").read_text() == "resume"
    migrator.step()
    assert (volume / "signal").read_text() == "init"


def test_what_cannot_be_restored_in_place_is_refused() -> None:
    with pytest.raises(MigrationMistake, match="MigratableVariable"):
        Migrator().register("best", 0.0)
    with pytest.raises(MigrationMistake, match="'resile'"):
        Migrator().register("resile", {})


def test_a_name_stands_for_one_object() -> None:
    migrator = Migrator()
    state: dict[str, int] = {}
    migrator.register("state", state)
    migrator.register("state", state)
    with pytest.raises(MigrationMistake, match="another object"):
        migrator.register("state", {})


@pytest.mark.usefixtures("volume")
def test_loading_without_a_save_says_what_to_ask_first() -> None:
    with pytest.raises(MigrationMistake, match=r"migrator\.resume"):
        Migrator().load_ckpt()
    with pytest.raises(MigrationMistake, match="interval"):
        Migrator().listening(0)
