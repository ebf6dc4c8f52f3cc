"""Faults that a save must survive: an empty overwrite, a torn file, a resume by only some ranks."""

from __future__ import annotations

import hashlib

import pytest

from tests.local.commands import wait_for
from tests.local.migrate.moving import FAR, Moved


def digest(moved: Moved) -> str:
    return hashlib.sha256((moved.volume / "migration.pth").read_bytes()).hexdigest()


def test_a_stale_request_does_not_touch_the_save(moved: Moved) -> None:
    moved.train(STEPS=str(FAR))
    moved.reached(5)
    last = moved.stop()
    saved = digest(moved)
    (moved.volume / "signal").write_text("save")
    again = moved.train(STEPS=str(last + 5))
    assert again.wait() == 0, again.output
    assert moved.beginnings() == [("resumed", last + 1)] * 2
    assert "save migrate ckpt" not in again.output
    assert digest(moved) == saved


def test_a_stale_request_of_a_first_run_is_void(moved: Moved) -> None:
    moved.volume.mkdir()
    (moved.volume / "signal").write_text("save")
    only = moved.train(STEPS="10")
    assert only.wait() == 0, only.output
    assert moved.beginnings() == [("fresh", 0)] * 2
    assert not (moved.volume / "migration.pth").exists()
    assert moved.signal == "init"


@pytest.mark.parametrize("launcher", ["resile", "torchrun"])
def test_a_kill_in_the_middle_of_a_save_leaves_the_one_before(moved: Moved, launcher: str) -> None:
    start = moved.train if launcher == "resile" else moved.torchrun
    start(STEPS=str(FAR))
    moved.reached(5)
    last = moved.stop()
    saved = digest(moved)
    start("--max-restarts", "0", STEPS=str(FAR), KILL_AT="save")
    moved.reached(last + 4)
    moved.hook("prestop", "--timeout", "0.5")
    killed = moved.nodes[-1]
    assert killed.wait() != 0, killed.output
    assert list(moved.volume.glob(".migration.pth.*.tmp"))
    assert digest(moved) == saved
    (moved.volume / "signal").write_text("save")
    again = start(STEPS=str(last + 3))
    assert again.wait() == 0, again.output
    assert moved.beginnings() == [("resumed", last + 1)] * 2
    assert not list(moved.volume.glob(".migration.pth.*.tmp"))


def test_a_save_that_cannot_be_written_does_not_end_training(moved: Moved) -> None:
    moved.train(STEPS=str(FAR), MIGRATION_CKPT_PATH="/proc/nowhere/migration.pth")
    moved.reached(5)
    done = moved.hook("prestop", "--timeout", "50")
    assert done.returncode == 1
    assert "nothing was saved" in done.stderr
    moved.nodes[-1].says("not saved, training continues: cannot")
    before = max(r.step for r in moved.records())
    moved.reached(before + 3)
    assert moved.signal == "init"


def test_a_hook_without_training_gives_up_and_takes_its_request_back(moved: Moved) -> None:
    done = moved.hook("prestop", "--timeout", "0.2")
    assert done.returncode == 1
    assert "--timeout" in done.stderr
    assert moved.signal == "init"
    assert "gave up" in (moved.volume / "preStop.log").read_text()


def test_hooks_of_several_pods_do_no_harm(moved: Moved) -> None:
    moved.train(STEPS=str(FAR))
    moved.reached(5)
    moved.stop()
    assert moved.hook("prestop").returncode == 0
    assert moved.signal == "resume"
    wait_for(lambda: "saved already" in (moved.volume / "preStop.log").read_text(), "a note")
