"""A job that is moved resumes with the next step and has the same result to the bit."""

from __future__ import annotations

import hashlib
import json
import os
import signal

from resile.job.exits import NodeExitCode
from resile.wire.endpoint import free_port
from tests.local.commands import wait_for
from tests.local.migrate.moving import FAR, Moved


def test_a_moved_job_comes_to_the_same_result(moved: Moved, undisturbed: str) -> None:
    assert moved.hook("poststart").returncode == 0
    moved.train(PAUSE="0.05")
    moved.reached(8)
    last = moved.stop()
    steps = [r for r in moved.records() if r.what == "step"]
    assert [max(r.step for r in steps if r.rank == rank) for rank in (0, 1)] == [last, last]
    assert moved.signal == "resume"
    assert moved.saved["metircs"]["epoch"] == last
    assert sorted(name.name for name in moved.volume.iterdir() if name.name[0] != ".") == [
        *("migration.pth", "postStart.log", "preStop.log", "signal")
    ]
    log = (moved.volume / "preStop.log").read_text().splitlines()
    assert log[0].startswith("stop: ")
    assert [line[20:] for line in log[1:]] == ["saving ckpts...", "finish ckpts!"]
    assert (moved.volume / "postStart.log").read_text().startswith("start: ")

    second = moved.train()
    assert second.wait() == 0, second.output
    assert moved.beginnings() == [("resumed", last + 1)] * 2
    assert second.output.count("load migration ckpt from epoch") == 2
    assert moved.signal == "init"
    assert moved.result == undisturbed


def test_a_job_can_be_moved_twice(moved: Moved, undisturbed: str) -> None:
    moved.train(PAUSE="0.05")
    moved.reached(5)
    first = moved.stop()
    moved.train(PAUSE="0.05")
    moved.reached(first + 4)
    second = moved.stop()
    assert moved.train().wait() == 0
    assert moved.beginnings() == [("resumed", second + 1)] * 2
    assert moved.result == undisturbed


def test_it_works_under_torchrun(moved: Moved, undisturbed: str) -> None:
    moved.torchrun(PAUSE="0.05")
    moved.reached(8)
    last = moved.stop()
    again = moved.torchrun()
    assert again.wait() == 0, again.output
    assert moved.beginnings() == [("resumed", last + 1)] * 2
    assert moved.result == undisturbed


def test_a_job_can_go_on_with_another_number_of_workers(moved: Moved) -> None:
    moved.train(STEPS=str(FAR))
    moved.reached(6)
    last = moved.stop()
    best = moved.saved["metircs"]["best_acc"]
    alone = moved.train(nproc=1, STEPS=str(last + 3))
    assert alone.wait() == 0, alone.output
    assert moved.beginnings() == [("resumed", last + 1)]
    assert f"'best_acc': {best}" in alone.output


def test_a_worker_that_dies_after_loading_loads_again(moved: Moved) -> None:
    moved.train(STEPS=str(FAR))
    moved.reached(5)
    last = moved.stop()
    moved.train("--max-restarts", "3", STEPS=str(FAR))
    moved.reached(last + 3)
    assert moved.signal == "init"
    os.kill(moved.pid_of(0), signal.SIGKILL)
    wait_for(lambda: len(moved.beginnings()) == 4, "another round")
    assert moved.beginnings() == [("resumed", last + 1)] * 4
    moved.reached(last + 5)
    assert moved.stop() > last


def test_pods_of_one_job_are_moved_together(moved: Moved, undisturbed: str) -> None:
    for _ in range(2):
        moved.train("--nnodes", "2", nproc=1, PAUSE="0.05")
    moved.reached(8)
    last = moved.stop()
    assert moved.hook("prestop").returncode == 0
    assert [node.wait() for node in moved.nodes] == [0, 0]
    moved.port = free_port()
    after = [moved.train("--nnodes", "2", nproc=1) for _ in range(2)]
    assert [node.wait() for node in after] == [0, 0], after[0].output
    assert moved.beginnings() == [("resumed", last + 1)] * 2
    assert moved.result == undisturbed


def test_a_script_that_fails_after_loading_loads_again(moved: Moved) -> None:
    moved.train(STEPS=str(FAR))
    moved.reached(5)
    last = moved.stop()
    failing = moved.train("--max-restarts", "1", STEPS=str(FAR), FAIL_AT=str(last + 3))
    assert failing.wait() != 0
    assert moved.beginnings() == [("resumed", last + 1)] * 4


def test_workers_that_the_script_spawns_itself_are_moved(moved: Moved) -> None:
    moved.spawned(STEPS=str(FAR))
    moved.reached(5)
    last = moved.stop()
    again = moved.spawned(STEPS=str(last + 3))
    assert again.wait() == 0, again.output
    assert moved.beginnings() == [("resumed", last + 1)] * 2


def test_a_later_run_on_the_same_volume_begins_anew(moved: Moved) -> None:
    moved.train(STEPS=str(FAR))
    moved.reached(5)
    last = moved.stop()
    assert moved.train(STEPS=str(last + 3)).wait() == 0
    unrelated = moved.train(STEPS="2")
    assert unrelated.wait() == 0
    assert moved.beginnings() == [("fresh", 0)] * 2


def test_sharded_state_is_one_file_and_goes_on_with_fewer_workers(moved: Moved) -> None:
    moved.train(STEPS=str(FAR), SHARDED="1")
    moved.reached(6)
    last = moved.stop()
    whole = hashlib.sha256()
    for tensor in moved.saved["model"].values():
        whole.update(tensor.numpy().tobytes())
    alone = moved.train(nproc=1, STEPS=str(last + 1), SHARDED="1")
    assert alone.wait() == 0, alone.output
    assert moved.beginnings() == [("resumed", last + 1)]
    assert json.loads(moved.result)[0] == whole.hexdigest()


def test_a_pod_that_is_stopped_after_its_hook_counts_as_drained(moved: Moved) -> None:
    node = moved.train(STEPS=str(FAR), LINGER="600")
    moved.reached(5)
    assert moved.hook("prestop", "--timeout", "50").returncode == 0
    last = max(r.step for r in moved.records() if r.what == "stepped")
    node.process.send_signal(signal.SIGTERM)
    assert node.wait() == NodeExitCode.DRAINED, node.output
    assert max(r.step for r in moved.records()) == last == moved.saved["metircs"]["epoch"]
