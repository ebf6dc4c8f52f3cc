"""A state saved on some ranks is restored on any other number of them, the same to the bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.train.ranks import run_ranks

SCRIPT = "sharded_state.py"


@pytest.fixture(scope="module", params=["ddp", "fsdp"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Parts of four ranks; the folder is named for the kind of training."""
    folder: Path = tmp_path_factory.mktemp("saved") / request.param
    folder.mkdir()
    run_ranks(SCRIPT, "save", folder.name, str(folder), world=4, meeting=folder.parent / "save")
    return folder


@pytest.mark.parametrize("world", [1, 2, 3])
def test_saved_on_four_ranks_and_restored_on(world: int, saved: Path, tmp_path: Path) -> None:
    run_ranks(SCRIPT, "check", saved.name, str(saved), world=world, meeting=tmp_path / "meeting")


def test_saved_on_four_ranks_and_restored_after_a_step(saved: Path, tmp_path: Path) -> None:
    meeting = tmp_path / "meeting"
    run_ranks(SCRIPT, "check", saved.name, str(saved), world=2, meeting=meeting, STEP_FIRST="1")


@pytest.mark.parametrize(("before", "after"), [("ddp", "fsdp"), ("fsdp", "ddp"), ("fsdp", "plain")])
def test_another_way_of_wrapping_the_model_gets_the_same(
    before: str, after: str, tmp_path: Path
) -> None:
    run_ranks(SCRIPT, "save", before, str(tmp_path), world=2, meeting=tmp_path / "save.pt")
    world = 1 if after == "plain" else 2
    run_ranks(SCRIPT, "check", after, str(tmp_path), world=world, meeting=tmp_path / "check.pt")


@pytest.mark.parametrize("kind", ["hybrid", "tensor"])
def test_a_mesh_of_two_dimensions_goes_onto_another_number_of_ranks(
    kind: str, tmp_path: Path
) -> None:
    run_ranks(SCRIPT, "save", kind, str(tmp_path), world=4, meeting=tmp_path / "save.pt")
    run_ranks(SCRIPT, "check", kind, str(tmp_path), world=2, meeting=tmp_path / "check.pt")
    run_ranks(SCRIPT, "check", "fsdp", str(tmp_path), world=2, meeting=tmp_path / "other.pt")
