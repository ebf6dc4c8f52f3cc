"""Storage that fails during a training is reported once, and found by the check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from resile.ledger import Ledger, check, read_ledger

WORKER = """
import resource, signal, sys
from resile.ledger import Ledger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
full, other = (Ledger(sys.argv[1], length=400, rank=r, world=2, round="1") for r in (0, 1))
for step in range(1, 51):
    first = 8 * (step - 1)
    full.record(step, 0, [first + i for i in (0, 3, 1, 2)], total=8)
    if step <= 10:
        other.record(step, 0, [first + i for i in (4, 7, 5, 6)], total=8)
print("trained on")
"""


def test_a_worker_whose_ledger_cannot_grow_trains_on(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WORKER, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "trained on\n", done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"the ledger cannot be written to {tmp_path}: ")
    assert "rank 0 continues without it" in line
    (stream,) = check(read_ledger(tmp_path)).streams
    assert not stream.sound
    assert 10 < stream.steps < 50
    assert "step 11 trained 8 samples of epoch 0, but 4 are recorded (by ranks 0)" in stream.faults


def test_a_ledger_that_nobody_holds_any_more_gives_its_file_back(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for epoch in range(20):
        Ledger(tmp_path, rank=0, world=1).record(0, epoch, [0])
    assert len(list(Path("/proc/self/fd").iterdir())) == before
