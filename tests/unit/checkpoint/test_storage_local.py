"""A folder as storage: durable writes, reads with and without mapping, lists, clear errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from resile.checkpoint.errors import BadAddress, NotOnStorage, StorageError, StorageRefused
from resile.checkpoint.storage.base import open_storage, read_whole
from resile.checkpoint.storage.local import LocalStorage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path / "here")


def put(storage: LocalStorage, path: str, data: bytes) -> None:
    storage.write(path, [memoryview(data)])


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://localhost{}"])
def test_a_path_and_a_file_address_lead_to_the_same_folder(tmp_path: Path, form: str) -> None:
    storage = open_storage(form.format(tmp_path / "a b"))
    assert storage.address == str(tmp_path / "a b")


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(BadAddress, match="file:///absolute/path"):
        open_storage("file://elsewhere/x")


def test_an_empty_address_is_refused() -> None:
    with pytest.raises(BadAddress, match="needs a name"):
        open_storage("")


def test_a_local_folder_needs_no_fsspec(tmp_path: Path) -> None:
    program = (
        "import sys; from resile.checkpoint.storage.base import open_storage;"
        f"open_storage({str(tmp_path)!r}).write('a', [memoryview(b'x')]);"
        "assert 'fsspec' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_was_written_is_read_back_whole_and_in_ranges(storage: LocalStorage) -> None:
    storage.write("a/b/c", [memoryview(b"one"), memoryview(b""), memoryview(b"two")])
    assert read_whole(storage, "a/b/c") == b"onetwo"
    with storage.open("a/b/c") as file:
        assert file.size == 6
        view = file.read(2, 5)
        assert file.read(6, 6) == b""
    assert view == b"etw", "what was mapped outlives the file"


def test_an_empty_file_can_be_read(storage: LocalStorage) -> None:
    put(storage, "a", b"")
    with storage.open("a") as file:
        assert file.read(0, 0) == b""


def test_reading_beyond_the_end_is_an_error(storage: LocalStorage) -> None:
    put(storage, "a", b"123")
    with storage.open("a") as file:
        with pytest.raises(StorageError, match="up to byte 4"):
            file.read(0, 4)
        with pytest.raises(StorageError, match="ends at byte 3"):
            file.read_into(1, memoryview(bytearray(3)))


def test_a_list_is_in_order_and_tells_files_from_folders(storage: LocalStorage) -> None:
    put(storage, "b", b"12")
    put(storage, "a/x", b"1")
    assert [(one.name, one.size, one.is_folder) for one in storage.list()] == [
        ("a", 0, True),
        ("b", 2, False),
    ]


def test_a_folder_goes_with_its_last_file_and_missing_files_do_not_matter(
    storage: LocalStorage,
) -> None:
    put(storage, "a/x", b"1")
    put(storage, "a/y", b"1")
    storage.delete(["a/x", "a/none", "none/none"])
    assert [one.name for one in storage.list("a")] == ["y"]
    storage.delete(["a/y"])
    assert storage.list() == []


def test_what_is_not_there_is_said_by_name(storage: LocalStorage) -> None:
    with pytest.raises(NotOnStorage, match="here/none: No such file or directory"):
        storage.open("none")
    with pytest.raises(NotOnStorage, match="cannot list"):
        storage.list("none")


def test_a_folder_cannot_be_read_as_a_file(storage: LocalStorage) -> None:
    put(storage, "a/x", b"1")
    with pytest.raises(StorageError, match="not a regular file"):
        storage.open("a")


def test_a_file_in_the_place_of_the_folder_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "here").write_text("a file")
    with pytest.raises(StorageRefused, match="Not a directory"):
        put(LocalStorage(tmp_path / "here"), "a/x", b"1")


def test_a_write_that_fails_in_its_source_leaves_what_was_there(storage: LocalStorage) -> None:
    put(storage, "a", b"before")

    def chunks() -> Iterator[memoryview]:
        yield memoryview(b"aft")
        raise RuntimeError("the source is gone")

    with pytest.raises(RuntimeError):
        storage.write("a", chunks())
    assert read_whole(storage, "a") == b"before"
    assert [one.name for one in storage.list()] == ["a"]


@contextmanager
def somebody_else() -> Iterator[None]:
    """Switch to another user for a while, since root may write everywhere."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_folder_that_is_not_ours_is_refused_at_once(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with somebody_else(), pytest.raises(StorageRefused, match="Permission denied"):
        put(LocalStorage(tmp_path), "a", b"1")
