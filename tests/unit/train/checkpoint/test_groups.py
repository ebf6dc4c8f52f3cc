"""Checkpoints from before there were groups belong to the main group, and do not change."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from resile import Checkpointer
from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.errors import PartDamaged
from resile.checkpoint.manifest import decode_manifest, encode_manifest
from resile.checkpoint.part import PartKind, lay_out, read_header
from resile.checkpoint.storage.base import open_storage
from resile.cli.main import cli
from resile.snapshots.slots import Label, PartPlace
from resile.train.checkpoint.restore.memory_parts import PeerPart
from resile.train.checkpoint.restore.select_source import RestoreSource
from resile.train.checkpoint.save.capture import Capture
from tests.checkpoints import newest_whole

BEFORE = Path(__file__).parent / "before_groups" / "checkpoints"
"""Written by Resile without groups: job digits, round 3, a model after two steps of SGD."""

WEIGHT = [[-0.24061207473278046, -0.7159566283226013], [-0.06484067440032959, -0.06812364608049393]]


@pytest.fixture
def checkpoints(tmp_path: Path) -> Path:
    return Path(shutil.copytree(BEFORE, tmp_path / "checkpoints"))


def new_state() -> dict[str, Any]:
    model = torch.nn.Linear(2, 2)
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=1.0), "step": 0}


def test_an_old_checkpoint_is_the_main_groups(checkpoints: Path) -> None:
    state = new_state()
    with Checkpointer(checkpoints, quiet=True) as checkpointer:
        assert checkpointer.restore(state) == 2
        assert checkpointer.resumed.source is RestoreSource.STORAGE
        assert state["model"].weight.tolist() == WEIGHT
        assert state["optimizer"].param_groups[0]["momentum"] == 0.9
        checkpointer.save(2, state)
    assert newest_whole(CheckpointCatalog(open_storage(checkpoints))).step == 3


def test_an_old_checkpoint_is_nothing_to_another_group(
    checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESILE_GROUP", "evaluate")
    state = new_state()
    with Checkpointer(checkpoints, quiet=True) as checkpointer:
        assert checkpointer.restore(state) == 0
        checkpointer.save(0, state)
    assert newest_whole(CheckpointCatalog(open_storage(checkpoints))).step == 2
    own = newest_whole(CheckpointCatalog(open_storage(checkpoints), "evaluate"))
    assert (own.step, own.manifest.group, own.manifest.format) == (1, "evaluate", 3)


def test_another_group_may_look_at_a_checkpoint_on_purpose_and_saves_nothing_there(
    checkpoints: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RESILE_GROUP", "evaluate")
    before = sorted(checkpoints.rglob("*"))
    state = new_state()
    with Checkpointer(checkpoints, group="") as checkpointer:
        assert checkpointer.restore(state) == 2
        assert "resumed at step 2 of job 'digits' of the main group" in capsys.readouterr().err
        for save in (checkpointer.save, checkpointer.step):
            with pytest.raises(RuntimeError, match="reads the checkpoints of the main group and"):
                save(2, state)
    assert state["model"].weight.tolist() == WEIGHT
    assert sorted(checkpoints.rglob("*")) == before


def test_the_commands_show_an_old_checkpoint_as_they_did(checkpoints: Path) -> None:
    shown = CliRunner().invoke(cli, ["ckpt", "ls", str(checkpoints)]).stdout.splitlines()
    assert shown[0].split() == ["STEP", "SIZE", "WORLD", "PARTS", "ROUND", "AGE", "JOB", "STATE"]
    assert len(shown) == 2


def test_what_the_main_group_writes_has_not_changed() -> None:
    """To the byte: an older Resile reads it."""
    folder = BEFORE / "step-000000002"
    text = (folder / "manifest.json").read_bytes()
    assert encode_manifest(decode_manifest(text, source="it")) == text
    for path in folder.glob("*.safetensors"):
        header, layout = read_header(memoryview(path.read_bytes()), source=path.name)
        assert header.group == ""
        assert lay_out(header, room=len(layout.header)).header == layout.header


def test_a_part_in_memory_that_is_another_groups_is_not_used() -> None:
    captured = Capture(group="evaluate").take({"x": torch.ones(2)}, step=4)
    place = PartPlace(kind=PartKind.RANK, index=0, count=1)
    label = Label(place=place, step=4, round=1, world=1)
    with pytest.raises(PartDamaged, match="step 4 of rank-00000-of-00001 of group 'evaluate'"):
        PeerPart(label, captured.rank.layout.header, attempts=[])
