"""--event-log-handler console: the events of torch's own agent, in its format."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.local.jobs import Job

OURS_TO_CHOOSE = {"run_id", "worker_id", "rdzv_backend", "total_run_time", "raw_error", "metadata"}
OF_ITS_RENDEZVOUS = {"RENDEZVOUS", "ASSIGN_WORKER_RANKS", "EXIT_BARRIER"}


def events(output: str) -> list[dict[str, Any]]:
    lines = [line[line.index("{") :] for line in output.splitlines() if '{"name": "torch' in line]
    found = [json.loads(line) for line in lines]
    return [event for event in found if event["metadata"]["state"] not in OF_ITS_RENDEZVOUS]


def comparable(event: dict[str, Any]) -> dict[str, Any]:
    kept = {key: v for key, v in event["metadata"].items() if key not in OURS_TO_CHOOSE}
    details = json.loads(event["metadata"]["metadata"])
    del details["entry_point"]
    if details.get("worker_pid") not in (None, [None]):
        details["worker_pid"] = "a pid"
    return {**event, "metadata": {**kept, "metadata": details}}


def test_the_events_of_a_failed_job_are_those_of_torchrun(job: Job, tmp_path: Path) -> None:
    script = tmp_path / "one_fails.py"
    script.write_text("import os, sys; sys.exit(3 if os.environ['RANK'] == '1' else 0)\n")
    flags = ["--standalone", "--nproc-per-node=2", "--max-restarts=0"]
    flags += ["--event-log-handler", "console"]
    theirs = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", *flags, str(script)],
        env=job.env(),
        capture_output=True,
        text=True,
        check=False,
    )
    node = job.start(*flags, script=str(script), endpoint=False, nproc=2)
    assert node.wait() == 1
    expected = [comparable(event) for event in events(theirs.stderr)]
    assert [comparable(event) for event in events(node.output)] == expected
    states = [(event["source"], event["metadata"]["state"]) for event in expected]
    assert states == [
        *[("WORKER", "START")] * 2,
        *[("WORKER", "TERMINATED"), ("WORKER", "FAILED"), ("AGENT", "SUCCEEDED")],
    ]


def test_nothing_is_written_unless_asked_for(job: Job, tmp_path: Path) -> None:
    script = tmp_path / "fine.py"
    script.write_text("")
    node = job.start("--standalone", script=str(script), endpoint=False)
    assert node.wait() == 0
    assert events(node.output) == []
