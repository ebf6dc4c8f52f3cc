"""DDP on leased data with real workers that die, verified by the log of trained records."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from resile.ledger import check, read_ledger
from tests.local.commands import wait_for
from tests.local.jobs import Job

TRAIN = Path(__file__).parent / "scripts" / "train.py"
STREAM = TRAIN.with_name("stream.py")
TOKEN = "a-token-that-only-the-tests-know"


class Run:
    """One job whose workers find the master, and their logs."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.folder = job.folder / "state"
        self.folder.mkdir()
        self.ledger = job.folder / "ledger"
        job.environment = {
            "RESILE_MASTER": job.endpoint,
            "RESILE_TOKEN": TOKEN,
            "STATE": str(self.folder),
            "RESILE_LEDGER": str(self.ledger),
        }

    def start(self, *flags: str, nproc: int = 1, script: Path = TRAIN, **environment: str) -> Any:
        return self.job.start(*flags, script=str(script), nproc=nproc, **environment)

    def lines(self, kind: str) -> list[dict[str, Any]]:
        found = []
        for log in sorted(self.folder.glob("log-*.jsonl")):
            lines = [line for line in log.read_text().splitlines(keepends=True) if line[-1] == "\n"]
            found += [json.loads(line) for line in lines]
        self.job.seen.update(line["pid"] for line in found)
        return [line for line in found if line["kind"] == kind]

    def counted(self) -> Counter[tuple[int, Any]]:
        """Records by epoch, of the steps that count: those that the next round resumed from."""
        begun = {line["round"]: line for line in self.lines("begun")}
        counts: Counter[tuple[int, Any]] = Counter()
        number, last = max(begun), None
        while number is not None:
            for line in self.lines("step"):
                if line["round"] == number and (last is None or line["step"] <= last):
                    counts.update((line["epoch"], _key(record)) for record in line["records"])
            last, number = begun[number]["step"], begun[number]["resumed"]
        return counts


def _key(record: Any) -> Any:
    """A record of a stream is its partition and offset."""
    return tuple(record) if isinstance(record, list) else record


@pytest.fixture
def run(job: Job) -> Run:
    return Run(job)


def whole(records: int, *, epochs: int = 1) -> Counter[tuple[int, int]]:
    return Counter((epoch, record) for epoch in range(epochs) for record in range(records))


@pytest.mark.parametrize("loaders", ["0", "2"])
def test_a_worker_is_killed_and_each_record_of_two_epochs_counts_once(
    run: Run, loaders: str
) -> None:
    node = run.start(nproc=3, DIE_AT="17", EPOCHS="2", LOADERS=loaders)
    assert node.wait() == 0, node.output
    assert run.counted() == whole(300, epochs=2)
    assert {line["resumed"] for line in run.lines("begun")} == {None, 1}
    verdict = check(read_ledger(run.ledger), epochs=2)
    assert verdict.sound, verdict
    assert "round 1 is over" not in node.output


@pytest.mark.parametrize("loaders", ["0", "2"])
def test_a_worker_is_killed_and_of_a_stream_nothing_is_left_out_or_trained_twice(
    run: Run, loaders: str
) -> None:
    """A stream has no end up to which all of it could be counted: everything leased before the kill
    is counted, and everything before that."""
    steps = 40
    node = run.start(nproc=2, script=STREAM, STEPS=str(steps), LOADERS=loaders)
    wait_for(lambda: len(run.lines("step")) > 16, "steps")
    os.kill(next(line["pid"] for line in run.lines("begun") if line["rank"] == 1), signal.SIGKILL)
    assert node.wait() == 0, node.output
    begun = {line["round"]: line for line in run.lines("begun")}
    assert [begun[number]["resumed"] for number in sorted(begun)] == [None, 1]
    assert begun[2]["step"] > 0

    counted = Counter({record: times for (_, record), times in run.counted().items()})
    assert set(counted.values()) == {1}, "nothing is trained twice"
    assert len(counted) == steps * 2 * 4
    for partition, first in enumerate([100, 0, 7]):
        early = [r for line in run.lines("step") if line["round"] == 1 for r in line["records"]]
        last = max(offset for number, offset in early if number == partition)
        missing = [o for o in range(first, last + 1) if (partition, o) not in counted]
        assert not missing, f"of partition {partition} up to {last}"
        assert min(offset for number, offset in counted if number == partition) == first


def test_a_node_is_lost_and_the_rest_of_the_epoch_is_shared_by_fewer(run: Run) -> None:
    nodes = [run.start("--nnodes", "1:2", PAUSE="0.05", RECORDS="500") for _ in range(2)]
    wait_for(lambda: (run.folder / "state.json").exists(), "a saved state")
    assert "'numbers' begins epoch 0 with 500 records left" in run.job.master_log
    nodes[1].signal(signal.SIGKILL)
    nodes[1].process.wait()
    assert nodes[0].wait() == 0, nodes[0].output
    assert run.counted() == whole(500)
    assert {line["world"] for line in run.lines("begun")} == {1, 2}


def test_the_master_is_killed_and_training_on_leases_goes_on(run: Run) -> None:
    node = run.start(nproc=2, PAUSE="0.03", RECORDS="400")
    wait_for(lambda: len(run.lines("step")) > 10, "steps")
    run.job.kill_master()
    assert node.wait() == 0, node.output
    assert run.counted() == whole(400)
    assert {line["round"] for line in run.lines("begun")} == {1}


def test_ranks_that_run_dry_at_different_times_do_not_hang_under_join(run: Run) -> None:
    node = run.start(nproc=2, APART="1", RECORDS="600")
    assert node.wait() == 0, node.output
    assert run.counted() == whole(600)
    taken = Counter(line["rank"] for line in run.lines("step") for _ in line["records"])
    assert taken[0] < taken[1], "the rank with the smaller batches takes fewer"


@pytest.mark.parametrize("records", ["7", "13", "2", "1"])
def test_few_records_are_shared_without_a_rank_left_waiting(run: Run, records: str) -> None:
    node = run.start(nproc=3, RECORDS=records)
    assert node.wait() == 0, node.output
    assert run.counted() == whole(int(records))
    assert len({line["step"] for line in run.lines("over")}) == 1


def test_under_plain_torchrun_the_split_is_made_beforehand(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    kept = {key: value for key, value in os.environ.items() if not key.startswith("RESILE_")}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node", "3", str(TRAIN)],
        env={**kept, "STATE": str(folder), "RECORDS": "101", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    logs = [json.loads(line) for log in folder.glob("log-*") for line in log.open()]
    counts = Counter(r for line in logs if line["kind"] == "step" for r in line["records"])
    assert counts == Counter(range(101))
