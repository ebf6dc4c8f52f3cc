"""A Checkpointer and its writer process with a damaged manifest in their folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from resile import Checkpointer
from tests.unit.checkpoint.damages import DAMAGES

pytestmark = pytest.mark.timeout(120)


def new_state(value: float = 0.0) -> dict[str, Any]:
    return {"w": torch.full((4,), value), "step": 0}


def steps(folder: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in folder.glob("step-*"))


@pytest.mark.parametrize("damage", ["bad UTF-8", "nested", "FIFO", "folder"])
def test_saving_pruning_and_restoring_go_on(
    tmp_path: Path, damage: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with Checkpointer(tmp_path, keep=2) as ckpt:
        assert ckpt.restore(new_state()) == 0
        for step in range(2):
            ckpt.save(step, new_state(float(step)))
        DAMAGES[damage](tmp_path / "step-000000002" / "manifest.json")
        for step in range(2, 5):
            ckpt.save(step, new_state(float(step)))
        assert ckpt.status().trouble == ""
    assert steps(tmp_path) == [2, 4, 5]
    (tmp_path / "step-000000005" / "manifest.json").write_bytes(b'{"job": "\xff"}')
    state = new_state()
    with Checkpointer(tmp_path) as ckpt:
        assert ckpt.restore(state) == 4
    assert state["w"].tolist() == [3.0] * 4
    assert "resile: not used: " in (said := capfd.readouterr().err)
    assert "step-000000005/manifest.json is not a manifest: it is not UTF-8" in said
