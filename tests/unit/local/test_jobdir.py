"""A job's folder: one owner, no partially written view, and nothing removed that is not ours."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from resile.job.view import JobView
from resile.local.jobdir import (
    FolderUnusable,
    JobDir,
    JobRunning,
    Requests,
    all_jobs,
)
from resile.wire.views import EventView
from tests.unit.checkpoint.damages import DAMAGES


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RESILE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def event(seq: int) -> EventView:
    return EventView(seq=seq, time=1.0, kind="K", text=f"event {seq}")


def test_only_one_may_hold_a_job_and_others_can_tell() -> None:
    folder = JobDir("train")
    assert not folder.exists()
    assert not folder.running()
    with folder.hold():
        assert folder.running()
        with pytest.raises(JobRunning, match=f"already running .pid {os.getpid()}."):
            JobDir("train").hold().__enter__()
    assert folder.exists()
    assert not folder.running()


def test_whoever_only_looks_does_not_keep_an_owner_out() -> None:
    folder = JobDir("train")
    with folder.hold():
        pass
    for _ in range(20):
        assert not folder.running()
        with folder.hold():
            assert folder.running()


def test_the_token_is_new_each_time_and_nobody_elses_to_read() -> None:
    folder = JobDir("train")
    with folder.hold():
        first, second = folder.begin(), folder.begin()
    assert first != second
    assert stat.S_IMODE(folder.token_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.path.stat().st_mode) == 0o700


def test_a_new_job_finds_nothing_of_the_old_one() -> None:
    folder = JobDir("train")
    with folder.hold():
        folder.begin()
        folder.write_requests(Requests(sizes={"worker": 2}))
        folder.write_view(JobView(name="train", phase="Running"))
        folder.append_events([event(1)])
        (folder.logs / "train-worker-0.log").write_text("x")
        folder.begin()
    assert folder.view() is None
    assert folder.events() == []
    assert folder.log_files() == []
    assert folder.requests() == Requests()


def test_a_line_that_a_crash_cut_off_is_left_out() -> None:
    folder = JobDir("train")
    with folder.hold():
        folder.begin()
        folder.append_events([event(1), event(2)])
        with open(folder.path / "events.jsonl", "ab") as file:
            file.write(b'{"seq":3,"ti')
    assert [found.seq for found in folder.events(since=1)] == [2]


def test_what_an_earlier_version_wrote_is_shown_without_its_training() -> None:
    folder = JobDir("train")
    older = {
        "name": "train",
        "phase": "Succeeded",
        "nodes": [
            {
                "name": "n",
                "role": "worker",
                "rank": 0,
                "phase": "Succeeded",
                "connected": False,
                "usage": {"cpu": 1.0, "memory": 9},
                "workerPids": [],
                "restarts": 2,
            },
        ],
        "training": {"job": "train", "round": 3, "min_nodes": 1, "nodes": [], "report": None},
        "groups": {"eval": {"job": "train", "nodes": []}},
        "status": {"phase": "Succeeded", "step": 7},
        "manifest": {"spec": {}},
        "wishes": {"worker": 2},
        "ended": "Succeeded",
    }
    with folder.hold():
        folder.begin()
        (folder.path / "job.json").write_text(json.dumps(older))
    view = folder.view()
    assert view is not None
    assert (view.phase, view.ended, view.training, view.groups) == ("Succeeded",) * 2 + (None, {})
    assert [(node.name, node.restarts) for node in view.nodes] == [("n", 2)]
    assert view.status is not None
    assert view.status.step == 7


def test_a_garbled_view_is_no_view() -> None:
    folder = JobDir("train")
    with folder.hold():
        folder.begin()
        (folder.path / "job.json").write_text("{")
    assert folder.view() is None


def test_removing_a_job_leaves_what_is_not_ours() -> None:
    folder = JobDir("train")
    with folder.hold():
        folder.begin()
        (folder.path / "notes.txt").write_text("mine")
        folder.remove()
    assert [path.name for path in folder.path.iterdir()] == ["notes.txt"]
    assert all_jobs() == []


def test_a_removed_job_is_gone_and_can_be_held_again() -> None:
    folder = JobDir("train")
    with folder.hold():
        folder.begin()
        folder.remove()
        assert not folder.path.exists()
        with JobDir("train").hold():
            assert [job.name for job in all_jobs()] == ["train"]


def test_a_place_that_cannot_be_used_is_named(home: Path) -> None:
    home.write_text("a file")
    with pytest.raises(FolderUnusable, match="cannot be used: Not a directory"):
        JobDir("train").hold().__enter__()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_of_a_job_is_passed_over(damage: str) -> None:
    folder = JobDir("train")
    with folder.hold():
        folder.begin()
        folder.write_requests(Requests(sizes={"worker": 2}))
        folder.write_view(JobView(name="train", phase="Running"))
        folder.append_events([event(1), event(2), event(3)])
    for name in ("job.json", "events.jsonl", "requests.json"):
        DAMAGES[damage](folder.path / name)
    # A flipped byte may be in a string that no reader needs.
    assert folder.view() in (None, JobView(name="train", phase="Running"))
    assert {one.seq for one in folder.events()} <= {1, 3}
    assert folder.requests() in (Requests(), Requests(sizes={"worker": 2}))


def test_a_damaged_line_of_the_story_costs_that_line_only() -> None:
    folder = JobDir("train")
    with folder.hold():
        folder.begin()
        folder.append_events([event(1), event(2), event(3)])
    path = folder.path / "events.jsonl"
    story = path.read_bytes()
    for position in range(len(story)):
        for bit in range(8):
            flipped = bytearray(story)
            flipped[position] ^= 1 << bit
            path.write_bytes(flipped)
            assert len(folder.events()) >= 1
