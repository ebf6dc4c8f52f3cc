"""A manifest that is damaged in any way is reported, and everything else continues."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from resile.checkpoint.catalog import CheckpointCatalog
from resile.checkpoint.commit import publish, write_part
from resile.checkpoint.errors import PartDamaged, PartsMissing
from resile.checkpoint.manifest import FORMAT, decode_manifest
from resile.checkpoint.prune import plan_pruning, prune, prune_after_publishing
from resile.checkpoint.storage.local import LocalStorage
from resile.cli.main import cli
from tests.checkpoints import newest_whole
from tests.unit.checkpoint.damages import DAMAGES
from tests.unit.checkpoint.parts import HASTY, parts_of, save

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for step in (10, 20, 30):
        save(LocalStorage(tmp_path / "c"), step)
    return tmp_path / "c"


def manifest_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:09d}" / "manifest.json"


def test_every_flipped_bit_is_noticed(folder: Path) -> None:
    data = manifest_of(folder, 30).read_bytes()
    manifest = decode_manifest(data, source="it")
    assert manifest.format == FORMAT
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            try:
                read = decode_manifest(bytes(flipped), source="the manifest of step 30")
            except PartDamaged:
                continue
            assert read == manifest, f"bit {bit} of byte {position}: {bytes(flipped)!r}"


def test_every_flipped_byte_leaves_the_other_checkpoints_to_use_and_to_prune(folder: Path) -> None:
    catalog = CheckpointCatalog(LocalStorage(folder))
    file = manifest_of(folder, 30)
    data = file.read_bytes()
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 1 << position % 8
        file.write_bytes(flipped)
        told: list[str] = []
        newest = newest_whole(catalog, tell=told.append)
        assert newest.step == (20 if told else 30)
        assert [one for one in told if "step-000000030/manifest.json" in one] == told
        plan = plan_pruning(catalog, keep=1, tell=told.append)
        assert plan.steps == ((10,) if told else (20, 10))


@pytest.mark.parametrize("damage", DAMAGES)
def test_whatever_is_in_its_place_is_named_and_passed_over(folder: Path, damage: str) -> None:
    DAMAGES[damage](manifest_of(folder, 30))
    catalog = CheckpointCatalog(LocalStorage(folder))
    told: list[str] = []
    assert newest_whole(catalog, tell=told.append).step == 20
    assert ["step-000000030/manifest.json" in one for one in told] == [True]
    assert prune(catalog, keep=1, tell=told.append).steps == (10,)
    assert catalog.steps() == [30, 20]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["ls"], 0),
        (["ls", "-o", "json"], 0),
        (["show"], 0),
        (["show", "--step", "30"], 1),
        (["verify"], 1),
        (["prune", "--keep", "1"], 0),
        (["export", "FILE"], 0),
    ],
    ids=range(7),
)
def test_commands_say_it_in_one_line_and_go_on(
    folder: Path, damage: str, command: list[str], code: int
) -> None:
    DAMAGES[damage](manifest_of(folder, 30))
    name, *options = (str(folder / "x.safetensors") if one == "FILE" else one for one in command)
    done = CliRunner().invoke(cli, ["ckpt", name, str(folder), *options], prog_name="resile")
    assert not isinstance(done.exception, Exception) or isinstance(done.exception, SystemExit)
    assert done.exit_code == code, done.output
    assert "step-000000030/manifest.json" in done.stderr
    assert len(done.stderr.splitlines()) <= 2


def test_an_entry_that_is_damaged_is_no_part_yet(folder: Path) -> None:
    """Publishing waits for it to be written again, and finally reports what is missing."""
    for number, damage in enumerate(DAMAGES):
        step = 100 + number
        storage = LocalStorage(folder)
        for part in parts_of(step):
            write_part(storage, part, attempt="a1", policy=HASTY)
        entry = folder / f"step-{step:09d}" / "rank-00001-of-00002.a1.json"
        DAMAGES[damage](entry)
        with pytest.raises(PartsMissing, match="rank-00001-of-00002"):
            publish(storage, step=step, world=2, replicas=1, attempt="a1", policy=HASTY)


class Broken(LocalStorage):
    """A storage whose driver raises an unexpected exception."""

    def delete(self, paths: object) -> None:  # noqa: ARG002
        raise RuntimeError("no bucket of that name")


def test_pruning_never_decides_about_a_publication(tmp_path: Path) -> None:
    for step in (10, 20):
        save(LocalStorage(tmp_path), step)
    told: list[str] = []
    said: set[str] = set()
    for _ in range(2):
        prune_after_publishing(
            CheckpointCatalog(Broken(tmp_path)), keep=1, said=said, tell=told.append
        )
    assert told == ["old checkpoints could not be removed: RuntimeError: no bucket of that name"]
