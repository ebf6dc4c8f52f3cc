"""Command lines of each system, requirements of its saver, and the baselines."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.checkpoints.catalogue import CHECKPOINTS
from bench.checkpoints.loopback import transfer_seconds
from bench.checkpoints.systems import (
    CHECKPOINT_SYSTEMS,
    SCRIPT,
    CheckpointSystem,
    Plan,
    planned,
    storage_of,
)
from bench.jobs import free_ports
from bench.launchers import HOST, Shape, Site, Torchrun
from tests.local.commands import wait_for

SHAPE = Shape(min_nodes=1, max_nodes=1, workers_per_node=2)


def test_every_system_has_a_saver_and_every_experiment_known_systems() -> None:
    names = {system.name for system in CHECKPOINT_SYSTEMS}
    for system in CHECKPOINT_SYSTEMS:
        assert SCRIPT.with_name(f"{system.saver}.py").exists()
    for experiment in CHECKPOINTS:
        assert set(experiment.launchers) <= names


def test_a_system_runs_the_script_with_its_plan(tmp_path: Path) -> None:
    site = Site(job="job", shape=SHAPE, folder=tmp_path, port=1, spare_port=2)
    bare = CheckpointSystem("copy", "plain copy", Torchrun(), "save_copy")
    command = planned(bare, Plan(megabytes=7, durable=True)).agent(site, 0)
    assert command.argv[-1] == str(SCRIPT)
    assert command.env["BENCH_BYTES"] == "7000000"
    assert command.env["BENCH_DURABLE"] == "1"
    assert command.env["BENCH_STORAGE"] == str(storage_of(site))


def test_only_what_saves_can_be_given_a_plan() -> None:
    with pytest.raises(TypeError, match="torchrun saves nothing"):
        planned(Torchrun(), Plan())


def test_bytes_through_loopback_take_some_time() -> None:
    assert transfer_seconds(3_000_000) > 0


@pytest.mark.parametrize("saver", ["save_copy", "save_torch", "save_dcp", "save_resile"])
def test_the_script_saves_with_every_saver(saver: str, tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    (port,) = free_ports(1)
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RESILE_")},
        **Plan(megabytes=8, every=3, durable=True).environment(tmp_path / "storage"),
        "BENCH_SAVER": saver,
        "BENCH_EVENTS": str(events),
        "BENCH_STEP_SECONDS": "0.001",
        "BENCH_NODE": "0",
        "MASTER_ADDR": HOST,
        "MASTER_PORT": str(port),
        **dict.fromkeys(("RANK", "LOCAL_RANK", "GROUP_RANK"), "0"),
        **dict.fromkeys(("WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"), "1"),
    }
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, str(SCRIPT)], env=env, stderr=log, stdout=log)

    def took_ten_steps() -> bool:
        assert process.poll() is None, (tmp_path / "log").read_text()
        return events.exists() and events.read_bytes().count(b"\n") >= 10

    try:
        wait_for(took_ten_steps, f"ten steps with {saver}")
    finally:
        process.kill()
        process.wait()
    records = [json.loads(line) for line in events.read_text().splitlines()[:10]]
    assert [one["step"] for one in records if one["due"]] == [2, 5, 8]
    assert all(one["save"] > 0 for one in records if one["due"])
