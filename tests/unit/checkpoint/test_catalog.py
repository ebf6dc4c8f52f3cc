"""Listing checkpoints, finding the intact ones, and reading one part of one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from resile.checkpoint.catalog import FIRST_READ, Checkpoint, CheckpointCatalog, Depth, StoredPart
from resile.checkpoint.commit import publish, write_part
from resile.checkpoint.errors import NotOnStorage, PartDamaged
from resile.checkpoint.part import read_header
from resile.checkpoint.storage.local import LocalStorage
from tests.unit.checkpoint.faults import Fault, faulty_system
from tests.unit.checkpoint.parts import make_part, noise, parts_of, replica_part, save

PART = "rank-00001-of-00002.a1"


@pytest.fixture
def catalog(tmp_path: Path) -> CheckpointCatalog:
    storage = LocalStorage(tmp_path)
    for step in (10, 20, 30):
        save(storage, step)
    return CheckpointCatalog(storage)


def file_of(folder: Path, step: int, part: str = PART) -> Path:
    return folder / f"step-{step:09d}" / f"{part}.safetensors"


def flip_a_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[-7] ^= 1
    file.write_bytes(data)


def test_checkpoints_come_newest_first(catalog: CheckpointCatalog) -> None:
    assert [one.step for one in catalog.checkpoints()] == [30, 20, 10]


def test_folders_that_are_not_checkpoints_are_passed_over(
    catalog: CheckpointCatalog, tmp_path: Path
) -> None:
    for name in ("step-12", "step-000000099", "notes", "step-abc"):
        (tmp_path / name).mkdir()
    (tmp_path / "step-000000098").write_text("a file")
    assert [one.step for one in catalog.checkpoints()] == [30, 20, 10]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (flip_a_bit, f"{PART} was changed after it was written (wrong checksum)"),
        (lambda file: file.write_bytes(file.read_bytes() + b"x"), f"{PART} has 381 bytes instead"),
        (lambda file: file.write_bytes(b""), f"{PART} has 0 bytes instead of 380"),
        (Path.unlink, f"{PART} is missing"),
    ],
    ids=["bit", "longer", "empty", "missing"],
)
def test_a_damaged_part_is_named(
    catalog: CheckpointCatalog, tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    spoil(file_of(tmp_path, 30))
    (damage,) = catalog.damages(catalog.at(30))
    assert damage.startswith(said)


def test_sizes_alone_do_not_find_a_changed_bit(catalog: CheckpointCatalog, tmp_path: Path) -> None:
    flip_a_bit(file_of(tmp_path, 30))
    assert catalog.damages(catalog.at(30), Depth.SIZES) == []


def test_all_damaged_parts_are_named(catalog: CheckpointCatalog, tmp_path: Path) -> None:
    flip_a_bit(file_of(tmp_path, 30))
    file_of(tmp_path, 30, "replica-00000-of-00001.a1").unlink()
    damages = catalog.damages(catalog.at(30))
    assert [text.split(" ")[0] for text in damages] == [PART, "replica-00000-of-00001.a1"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not a manifest"),
        ('{"step": 30}', "is not a manifest"),
        (None, "has format 4; this version of Resile reads 1 to 3"),
    ],
)
def test_a_manifest_that_cannot_be_read_is_told_of_and_passed_over(
    catalog: CheckpointCatalog, tmp_path: Path, text: str | None, said: str
) -> None:
    file = tmp_path / "step-000000030" / "manifest.json"
    if text is None:
        text = json.dumps({**json.loads(file.read_text()), "format": 4})
    file.write_text(text)
    told: list[str] = []
    assert [one.step for one in catalog.checkpoints(tell=told.append)] == [20, 10]
    assert len(told) == 1
    assert str(file) in told[0]
    assert said in told[0]


def test_a_manifest_that_leads_out_of_its_folder_is_not_followed(
    catalog: CheckpointCatalog, tmp_path: Path
) -> None:
    file = tmp_path / "step-000000030" / "manifest.json"
    text = file.read_text().replace('"format": 2', '"format": 1')  # one without a checksum
    file.write_text(text.replace(PART, "../step-000000020/" + PART))
    with pytest.raises(PartDamaged, match="has an invalid part name"):
        catalog.at(30)


def test_a_manifest_in_the_folder_of_another_step_is_refused(
    catalog: CheckpointCatalog, tmp_path: Path
) -> None:
    (tmp_path / "step-000000030").rename(tmp_path / "step-000000040")
    with pytest.raises(PartDamaged, match="is of step 30, not of step 40"):
        catalog.at(40)


def test_a_part_that_the_disk_does_not_give_is_damage(catalog: CheckpointCatalog) -> None:
    checkpoint = catalog.at(30)
    with faulty_system(_operation_of_the_first_part(catalog, checkpoint), Fault.BROKEN):
        (damage,) = catalog.damages(checkpoint)
    assert damage.startswith("rank-00000-of-00002.a1 could not be read")
    assert "Input/output error" in damage


def _operation_of_the_first_part(catalog: CheckpointCatalog, checkpoint: Checkpoint) -> int:
    """The number of operations before the first part's bytes are read."""
    with faulty_system(-1, Fault.BROKEN) as system:
        assert catalog.damages(checkpoint) == []
    return system.done.index("preadv")


def test_an_empty_folder_has_no_checkpoints_and_a_missing_one_is_told_apart(
    tmp_path: Path,
) -> None:
    assert list(CheckpointCatalog(LocalStorage(tmp_path)).checkpoints()) == []
    with pytest.raises(NotOnStorage):
        list(CheckpointCatalog(LocalStorage(tmp_path / "none")).checkpoints())


def test_verifying_reads_every_byte(catalog: CheckpointCatalog) -> None:
    checkpoint = catalog.at(30)
    seen: list[int] = []
    assert catalog.damages(checkpoint, progress=seen.append) == []
    assert sum(seen) == checkpoint.manifest.size


def test_a_part_is_read_header_first_and_then_by_ranges(catalog: CheckpointCatalog) -> None:
    checkpoint = catalog.at(20)
    for entry, part in zip(checkpoint.manifest.parts, parts_of(20), strict=True):
        with StoredPart(catalog.storage, checkpoint, entry) as stored:
            assert stored.header.step == 20
            for place in stored.layout.places.values():
                assert stored.read(place.begin, place.end) == part[place.begin : place.end]


def test_a_header_larger_than_the_first_read_is_read_whole(tmp_path: Path) -> None:
    small, _ = read_header(replica_part(5), source="it")
    header = msgspec.structs.replace(small, values="x" * (2 * FIRST_READ))
    storage = LocalStorage(tmp_path)
    write_part(storage, make_part(header, contents={"model.weight0": noise("", 400)}), attempt="a")
    publish(storage, step=5, world=0, replicas=1, attempt="a")
    checkpoint = CheckpointCatalog(storage).at(5)
    with StoredPart(storage, checkpoint, checkpoint.manifest.parts[0]) as stored:
        assert stored.header == header


def test_a_part_that_is_not_the_one_named_is_refused(
    catalog: CheckpointCatalog, tmp_path: Path
) -> None:
    checkpoint = catalog.at(30)
    file_of(tmp_path, 30).write_bytes(file_of(tmp_path, 20).read_bytes())
    with pytest.raises(PartDamaged, match="not the part that the manifest names"):
        StoredPart(catalog.storage, checkpoint, checkpoint.manifest.parts[1])
    file_of(tmp_path, 30).unlink()
    with pytest.raises(PartDamaged, match="is missing"):
        StoredPart(catalog.storage, checkpoint, checkpoint.manifest.parts[1])
