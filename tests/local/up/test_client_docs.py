"""The code blocks of docs/client.md, against a real job."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.local.up.ups import Machine, manifest, ticking

PAGE = Path(__file__).parents[3] / "docs" / "client.md"
CLUSTER = "## On a cluster"


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def test_every_example_for_this_machine_runs(machine: Machine) -> None:
    role = ticking(replicas={"min": 1, "max": 3, "wanted": 1}, PAUSE="0.1")
    machine.up(manifest("digits", {"worker": role}))
    machine.await_training("digits", nodes=1)
    before, _, after = PAGE.read_text().partition(CLUSTER)
    local = [*blocks(before), *blocks(after.partition("\n## ")[2])]
    assert len(local) == 4
    outputs = []
    for block in local:
        done = subprocess.run(
            [sys.executable, "-c", block],
            capture_output=True,
            text=True,
            env=machine.env(),
            timeout=90,
            check=False,
        )
        assert done.returncode == 0, f"{block}\n{done.stderr}"
        assert not done.stderr
        outputs.append(done.stdout)
    assert outputs[0].startswith("local Running\n")
    assert "ScaleRequested a user asked for worker=2" in outputs[0]
    assert "Running ['digits-worker-0'" in outputs[1]
    assert outputs[2].startswith("Running\n1 NodeStarted")
    assert "there is no job 'digit'. Did you mean 'digits'?" in outputs[3]
    assert "role worker may have 1 to 3 nodes, not 1000" in outputs[3]
    machine.says("delete", "digits")


def test_the_examples_for_a_cluster_can_be_read() -> None:
    (block,) = blocks(PAGE.read_text().partition(CLUSTER)[2].partition("\n## ")[0])
    compile(block, "client.md", "exec")
