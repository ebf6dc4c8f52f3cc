"""Keys that change exactly when an image would, and the files they are computed from."""

from pathlib import Path

import pytest

from devcluster.images.recipe import (
    CONTAINERFILE,
    EVERY_INPUT,
    IMAGES,
    STAGES,
    base_name,
    content_key,
    files,
    snapshot,
)

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("a.py", "sub/b.py", "other.txt"):
        path = tmp_path / "resile" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "README.md").write_text("read me")
    return tmp_path


def key(checkout: Path) -> str:
    return content_key(checkout, ["resile", "README.md"])


def test_a_key_stays_when_files_are_only_touched(checkout: Path) -> None:
    before = key(checkout)
    (checkout / "resile" / "a.py").touch()
    assert key(checkout) == before


def test_a_key_changes_with_a_byte(checkout: Path) -> None:
    before = key(checkout)
    (checkout / "resile" / "sub" / "b.py").write_text("changed")
    assert key(checkout) != before


def test_a_key_changes_with_a_name(checkout: Path) -> None:
    before = key(checkout)
    (checkout / "resile" / "a.py").rename(checkout / "resile" / "z.py")
    assert key(checkout) != before


def test_a_key_changes_when_a_byte_moves_to_the_next_file(tmp_path: Path) -> None:
    for name, first, second in (("one", "ab", "c"), ("two", "a", "bc")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(first)
        (tmp_path / name / "y").write_text(second)
    assert content_key(tmp_path / "one", ["x", "y"]) != content_key(tmp_path / "two", ["x", "y"])


def test_a_key_changes_with_the_base(checkout: Path) -> None:
    assert content_key(checkout, ["resile"], also="1") != content_key(
        checkout, ["resile"], also="2"
    )


def test_compiled_python_does_not_count(checkout: Path) -> None:
    before = key(checkout)
    cache = checkout / "resile" / "__pycache__"
    cache.mkdir()
    (cache / "a.cpython-311.pyc").write_bytes(b"compiled")
    assert key(checkout) == before


def test_a_snapshot_has_every_input_and_nothing_else(checkout: Path, tmp_path: Path) -> None:
    (checkout / "secret.txt").write_text("not an input")
    copied = snapshot(checkout, tmp_path / "copy")
    assert list(files(copied, EVERY_INPUT)) == list(files(checkout, EVERY_INPUT))
    assert not (copied / "secret.txt").exists()


def test_a_snapshot_forgets_what_an_earlier_one_had(checkout: Path, tmp_path: Path) -> None:
    snapshot(checkout, tmp_path / "copy")
    (checkout / "resile" / "a.py").unlink()
    assert not (snapshot(checkout, tmp_path / "copy") / "resile" / "a.py").exists()


def test_the_base_is_the_first_image_of_the_containerfile() -> None:
    assert base_name("# FROM nothing\nFROM some/python:3 AS base\nFROM base AS b\n") == (
        "some/python:3"
    )


def test_a_containerfile_without_a_base_is_refused() -> None:
    with pytest.raises(ValueError, match="no FROM"):
        base_name("RUN true\n")


def test_pods_and_the_store_know_an_image_by_different_names() -> None:
    assert IMAGES[0].local == "localhost/resile:dev"
    assert IMAGES[0].remote("127.0.0.1:5000") == "127.0.0.1:5000/resile:dev"


def test_inputs_and_targets_are_those_of_the_containerfile() -> None:
    lines = (REPOSITORY / CONTAINERFILE).read_text().splitlines()
    copies = [line.split()[1:-1] for line in lines if line.startswith("COPY")]
    copied = {name for words in copies if "--from" not in words[0] for name in words}
    assert copied == set(EVERY_INPUT) - {CONTAINERFILE, ".containerignore"}
    targets = {line.split(" AS ")[1] for line in lines if line.startswith("FROM")}
    assert {one.target for one in (*IMAGES, *STAGES)} <= targets


def test_the_ignore_file_lets_every_input_through() -> None:
    lines = (REPOSITORY / ".containerignore").read_text().splitlines()
    let_through = {line[1:] for line in lines if line.startswith("!")}
    assert let_through == set(EVERY_INPUT) - {CONTAINERFILE, ".containerignore"}
