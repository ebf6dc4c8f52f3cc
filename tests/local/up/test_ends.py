"""Ways to end a job from outside, and that nothing is left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.local.commands import wait_for
from tests.local.jobs import is_alive
from tests.local.up.ups import Machine, manifest, ticking, waiting


def cgroups_of(job: str) -> list[Path]:
    """The cgroups that the platform created for a job's nodes."""
    return [path for path in Path("/sys/fs/cgroup").glob(f"**/*{job}*") if path.is_dir()]


def limited(machine: Machine, name: str) -> dict[str, object]:
    """A job with nodes of both kinds, with limits, so that there are cgroups where possible."""
    limits = {"limits": {"cpu": "1", "memory": "2Gi"}}
    helper = waiting(machine.folder / "never", resources=limits)
    return manifest(name, {"worker": {**ticking(replicas=2), "resources": limits}, "ps": helper})


def test_ctrl_c_ends_everything(machine: Machine) -> None:
    up = machine.up(limited(machine, "stopped"))
    machine.await_training("stopped", nodes=2)
    assert len(machine.processes()) > 5
    up.signal(signal.SIGINT)
    assert up.wait() == 130
    machine.has_nothing_left()
    assert cgroups_of("stopped") == []
    assert "was interrupted; everything it started has ended" in up.output
    (row,) = json.loads(machine.says("jobs", "-o", "json"))
    assert row["phase"] == "Interrupted"


def test_a_second_ctrl_c_does_not_wait(machine: Machine) -> None:
    stubborn = machine.folder / "stubborn.py"
    stubborn.write_text(
        "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('ready', flush=True)\ntime.sleep(3600)\n"
    )
    role = {"command": ["python3", str(stubborn)], "terminationGracePeriodSeconds": 3600}
    up = machine.up(manifest("stubborn", {"worker": role}))
    up.says("ready")
    up.signal(signal.SIGINT)
    up.says("a second signal skips the grace period")
    assert up.process.poll() is None
    up.signal(signal.SIGINT)
    assert up.wait() == 130
    machine.has_nothing_left()


def test_up_killed_leaves_no_process_and_no_cgroup_behind(machine: Machine) -> None:
    up = machine.up(limited(machine, "vanished"))
    machine.await_training("vanished", nodes=2)
    up.signal(signal.SIGKILL)
    up.process.wait()
    machine.has_nothing_left()
    wait_for(lambda: cgroups_of("vanished") == [], "the end of the cgroups")
    (row,) = json.loads(machine.says("jobs", "-o", "json"))
    assert row["phase"] == "Crashed"
    assert "Crashed" in machine.says("describe", "vanished")
    assert "NodeStarted" in machine.says("events", "vanished")
    assert "step 0 of rank 0" in machine.says("logs", "vanished", "worker")
    assert "is not running (Crashed)" in machine.refuses("scale", "vanished", "worker=2")


def test_the_folder_of_a_killed_up_is_taken_over_by_a_fresh_job(machine: Machine) -> None:
    gate = machine.folder / "gate"
    crashed = machine.up(manifest("again", {"worker": waiting(gate)}))
    machine.await_nodes("again", phase="Running")
    token = machine.job("again").token_file.read_text()
    crashed.signal(signal.SIGKILL)
    crashed.process.wait()
    machine.has_nothing_left()
    fresh = machine.up(manifest("again", {"worker": waiting(gate)}))

    def taken_over() -> bool:
        try:
            return machine.job("again").token_file.read_text() not in ("", token)
        except FileNotFoundError:
            return False

    wait_for(taken_over, "another token")
    machine.await_nodes("again", phase="Running")
    gate.write_text("0")
    assert fresh.wait() == 0
    started = [text for kind, text in machine.events("again") if kind == "NodeStarted"]
    assert started == ["again-worker-0 (rank 0) is running"], "nothing of the job before"


def test_a_job_is_deleted_from_another_terminal(machine: Machine) -> None:
    up = machine.up(manifest("unwanted", {"worker": ticking()}))
    machine.await_training("unwanted", nodes=1)
    assert machine.says("delete", "unwanted") == "job 'unwanted' is deleted\n"
    assert up.wait() == 1
    assert "was deleted" in up.output
    machine.has_nothing_left()
    assert not machine.job("unwanted").path.exists()


def test_a_job_may_be_deleted_before_it_has_really_begun(machine: Machine) -> None:
    up = machine.up(manifest("hasty", {"worker": ticking()}))
    wait_for(machine.job("hasty").exists, "the job's folder")
    machine.says("delete", "hasty")
    assert up.wait() == 1
    machine.has_nothing_left()


def test_a_suspended_job_waits_without_nodes_until_it_is_deleted(machine: Machine) -> None:
    up = machine.up(manifest("resting", {"worker": ticking(replicas=2)}, suspend=True))
    wait_for(lambda: machine.view("resting").get("phase") == "Suspended", "the suspension")
    assert machine.nodes("resting") == []
    assert "spec.suspend is true" in machine.says("describe", "resting")
    machine.says("delete", "resting")
    assert up.wait() == 1
    machine.has_nothing_left()


def test_a_running_job_is_suspended_and_resumed(machine: Machine) -> None:
    up = machine.up(manifest("pausing", {"worker": ticking(replicas=2)}))
    first = machine.await_training("pausing", nodes=2)
    said = machine.says("suspend", "pausing", "--wait")
    hint = "'resile resume pausing' continues it"
    assert said == f"job 'pausing' is being suspended; {hint}\n"
    assert not any(node["phase"] == "Running" for node in machine.nodes("pausing"))
    assert machine.says("suspend", "pausing") == "job 'pausing' is already suspended\n"
    assert "pausing  Suspended  0/2" in machine.says("jobs")
    os.kill(machine.master_pid(), signal.SIGKILL)  # the next master takes over
    assert machine.says("resume", "pausing", "--wait") == "job 'pausing' is being resumed\n"
    machine.await_training("pausing", nodes=2, after=first)
    assert machine.says("resume", "pausing") == "job 'pausing' is not suspended\n"
    status = machine.view("pausing")["status"]
    assert status.get("spent", 0) == 0
    assert "resumed" in machine.says("events", "pausing")
    machine.says("delete", "pausing")
    assert up.wait() == 1
    machine.has_nothing_left()


def test_a_second_up_of_a_running_job_is_refused_and_hurts_nobody(machine: Machine) -> None:
    gate = machine.folder / "gate"
    described = manifest("single", {"worker": waiting(gate)})
    first = machine.up(described)
    machine.await_nodes("single", phase="Running")
    complaint = machine.refuses("up", str(machine.write(described)))
    assert f"the job 'single' is already running (pid {first.pid})" in complaint
    assert "--name" in complaint
    other = machine.up(described, "--name", "other")
    machine.await_nodes("other", phase="Running")
    gate.write_text("0")
    assert (first.wait(), other.wait()) == (0, 0)


def test_a_master_killed_at_the_end_loses_nothing_of_the_story(machine: Machine) -> None:
    gate = machine.folder / "gate"
    up = machine.up(manifest("late", {"worker": waiting(gate)}))
    machine.await_nodes("late", phase="Running")
    master = machine.master_pid()
    gate.write_text("0")
    os.kill(master, signal.SIGKILL)
    assert up.wait() == 0
    assert not is_alive(master)
    kinds = [kind for kind, _ in machine.events("late")]
    assert kinds[-2:] == ["NodeSucceeded", "JobSucceeded"]


def test_sigterm_ends_a_job_as_ctrl_c_does(machine: Machine) -> None:
    up = machine.up(manifest("told", {"worker": waiting(machine.folder / "never")}))
    machine.await_nodes("told", phase="Running")
    up.signal(signal.SIGTERM)
    assert up.wait() == 143
    machine.has_nothing_left()


def test_a_manifest_is_read_from_standard_input(machine: Machine) -> None:
    gate = machine.folder / "gate"
    gate.write_text("0")
    described = json.dumps(manifest("piped", {"worker": waiting(gate)}))
    done = subprocess.run(
        [sys.executable, "-m", "resile", "up", "-"],
        input=described,
        capture_output=True,
        text=True,
        env=machine.env(),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
