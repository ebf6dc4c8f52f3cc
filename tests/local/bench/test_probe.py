"""The training script of the bench, run for real."""

import os
import subprocess
import sys
import time
from pathlib import Path

from bench.launchers import PROBE
from bench.timeline import parse
from resile.wire.endpoint import free_port


def test_each_step_is_one_record(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    env = {
        **os.environ,
        "BENCH_EVENTS": str(events),
        "BENCH_NODE": "0",
        "BENCH_STEP_SECONDS": "0.001",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "RANK": "0",
        "WORLD_SIZE": "1",
        "TORCHELASTIC_RESTART_COUNT": "4",
    }
    begun = time.monotonic()
    probe = subprocess.Popen([sys.executable, str(PROBE)], env=env)
    try:
        while not events.exists() or events.read_bytes().count(b"\n") < 3:
            assert probe.poll() is None
            time.sleep(0.05)
        records, _ = parse(events.read_bytes())
    finally:
        probe.kill()
        probe.wait()
    assert [record.step for record in records[:3]] == [0, 1, 2]
    assert {(one.rank, one.world, one.pid, one.restart) for one in records} == {
        (0, 1, probe.pid, 4)
    }
    assert begun < records[0].time < time.monotonic()
