"""The folder in which the processes of one user find each other."""

from __future__ import annotations

import fcntl
import re
import stat
from pathlib import Path

import pytest

from resile.launch.state_dir import (
    StateDirError,
    private_folder,
    remove_run_folder,
    run_folder,
    state_home,
)
from resile.wire.endpoint import Endpoint


def test_the_users_choice_goes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RESILE_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_home() == tmp_path / ".local" / "state" / "resile"
    monkeypatch.setenv("XDG_STATE_HOME", "/x")
    assert state_home() == Path("/x/resile")
    monkeypatch.setenv("RESILE_HOME", "/r")
    assert state_home() == Path("/r")


def test_names_of_one_address_meet_in_one_folder() -> None:
    assert run_folder(Endpoint("localhost", 5)).name in {"127.0.0.1_5", "_1_5"}
    assert run_folder(Endpoint("127.0.0.1", 5)) != run_folder(Endpoint("127.0.0.1", 6))


@pytest.mark.parametrize("host", ["../../etc", "/etc", "..", ".", "a/../b", "a\nb"])
def test_no_host_leads_out_of_the_home(host: str) -> None:
    folder = run_folder(Endpoint(host, 1))
    assert folder.parent == state_home() / "runs"
    assert re.fullmatch(r"[A-Za-z0-9._-]+", folder.name)
    assert folder.name not in {".", ".."}


def test_a_private_folder_is_its_owners_alone(tmp_path: Path) -> None:
    folder = private_folder(tmp_path / "a" / "b")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert private_folder(folder) == folder


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        StateDirError, match=r"cannot be created: Not a directory; set \$RESILE_HOME"
    ):
        private_folder(tmp_path / "file" / "run")


def test_a_runs_folder_goes_with_all_that_resile_kept_in_it(tmp_path: Path) -> None:
    run = private_folder(tmp_path / "run")
    for name in ("token", "master.db", "master.db-wal", "master.log", "master.db.lock"):
        (run / name).write_text("")
    remove_run_folder(run)
    assert not run.exists()
    remove_run_folder(run)


def test_what_is_not_ours_is_never_removed(tmp_path: Path) -> None:
    run = private_folder(tmp_path / "run")
    (run / "token").write_text("")
    (run / "thesis.tex").write_text("precious")
    remove_run_folder(run)
    assert [entry.name for entry in run.iterdir()] == ["thesis.tex"]


def test_the_folder_of_a_living_master_stays(tmp_path: Path) -> None:
    run = private_folder(tmp_path / "run")
    (run / "token").write_text("")
    with open(run / "master.db.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        remove_run_folder(run)
        assert (run / "token").exists()
    remove_run_folder(run)
    assert not run.exists()
