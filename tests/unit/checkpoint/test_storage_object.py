"""Object stores through fsspec: the store in memory, and the error when there is no driver."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from resile.checkpoint.errors import BadAddress, NotOnStorage, StorageError, StorageRefused
from resile.checkpoint.storage import object as object_storage
from resile.checkpoint.storage.base import Storage, open_storage, read_whole
from tests.unit.checkpoint.parts import noise
from tests.unit.checkpoint.protocol import keeps_the_protocol


class HttpError(Exception):
    """An exception like that of gcsfs."""

    def __init__(self, text: str, *, code: int | str) -> None:
        super().__init__(text)
        self.code = code


fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def storage() -> Iterator[Storage]:
    storage = open_storage("memory://bucket/run")
    yield storage
    fsspec.filesystem("memory").store.clear()


def test_the_whole_protocol_runs_on_an_object_store(storage: Storage) -> None:
    keeps_the_protocol(storage)


def test_a_large_file_is_uploaded_in_blocks(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "BLOCK", 1000)
    data = noise("large", 4321)
    storage.write("a/b", [memoryview(data)[at : at + 700] for at in range(0, 4321, 700)])
    assert read_whole(storage, "a/b") == data


def test_what_is_not_there_is_said_by_its_address(storage: Storage) -> None:
    with pytest.raises(NotOnStorage, match="memory://bucket/run/a/none"):
        storage.open("a/none")
    with pytest.raises(NotOnStorage, match="memory://bucket/run"):
        storage.list()
    storage.delete(["a/none"])


def test_an_object_that_is_shorter_than_it_was_is_trouble(storage: Storage) -> None:
    storage.write("a", [memoryview(b"12345")])
    with storage.open("a") as file:
        storage.write("a", [memoryview(b"123")])
        with pytest.raises(StorageError, match="ends before byte 5"):
            file.read(0, 5)


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (PermissionError("Access Denied"), StorageRefused),
        (FileNotFoundError("no such bucket"), StorageRefused),
        (OSError("Forbidden: https://storage/b/bucket/o"), StorageRefused),
        (HttpError("not this account, 403", code="403"), StorageRefused),
        (HttpError("Anonymous caller, 401", code=401), StorageRefused),
        (HttpError("Rate limit, 429", code=429), StorageError),
        (OSError("Input/output error"), StorageError),
        (ConnectionError("reset"), StorageError),
        (RuntimeError("the driver's own"), StorageError),
    ],
    ids=lambda one: getattr(one, "__name__", type(one).__name__),
)
def test_whatever_a_driver_raises_names_the_object(
    storage: object_storage.ObjectStorage,
    monkeypatch: pytest.MonkeyPatch,
    raised: Exception,
    expected: type,
) -> None:
    def refuse(*_: object) -> None:
        raise raised

    monkeypatch.setattr(storage._fs, "pipe_file", refuse)
    with pytest.raises(StorageError, match=f"memory://bucket/run/a: {raised}") as found:
        storage.write("a", [memoryview(b"x")])
    assert type(found.value) is expected


def test_an_unknown_kind_of_storage_is_refused_with_examples() -> None:
    with pytest.raises(BadAddress, match=r"'nosuch://x' is not a storage.*s3://bucket/folder"):
        open_storage("nosuch://x")


@pytest.mark.parametrize(
    ("address", "driver", "extra"),
    [("s3://b/x", "s3fs", "resile[s3]"), ("gs://b/x", "gcsfs", "resile[gcs]")],
)
def test_a_missing_driver_is_said_with_the_extra_that_brings_it(
    address: str, driver: str, extra: str
) -> None:
    program = (
        f"import sys; sys.modules[{driver!r}] = None\n"
        "from resile.checkpoint.storage.base import open_storage\n"
        "from resile.checkpoint.errors import BadAddress\n"
        f"try: open_storage({address!r})\n"
        "except BadAddress as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert f"install {extra}" in done.stdout
