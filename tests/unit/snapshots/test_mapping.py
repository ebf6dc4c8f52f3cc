"""Memory files in a process's address space."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from resile.snapshots import memory
from resile.snapshots.memory import LARGE, Mapping, collapse_pages, map_memory

SIZE = 4 * LARGE + 12_345


@pytest.fixture
def file() -> Iterator[int]:
    descriptor = memory.create()
    memory.grow(descriptor, SIZE)
    yield descriptor
    os.close(descriptor)


def test_what_one_mapping_writes_another_reads(file: int) -> None:
    written = map_memory(file, writable=True)
    written[:3] = b"one"
    written[-3:] = b"end"
    read = map_memory(file, writable=False)
    assert (bytes(read[:3]), bytes(read[-3:]), len(read)) == (b"one", b"end", SIZE)


def test_a_mapping_to_read_cannot_be_written_to(file: int) -> None:
    with pytest.raises(TypeError, match="read-only"):
        map_memory(file, writable=False)[0] = 1


def test_a_mapping_lives_as_long_as_a_view_of_it(file: int) -> None:
    before = mapped_files()
    view = map_memory(file, writable=True)[LARGE : LARGE + 10]
    assert mapped_files() == before + 1
    view[:] = b"0123456789"
    del view
    assert mapped_files() == before


def test_a_mapping_keeps_no_lock_of_its_descriptor(file: int) -> None:
    locked = memory.reopen(file)
    fcntl.flock(locked, fcntl.LOCK_EX)
    kept = map_memory(locked, writable=True)
    os.close(locked)
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert len(kept) == SIZE


def test_pages_made_ready_hold_what_they_held(file: int) -> None:
    mapping = Mapping(file, writable=True)
    mapping.view[LARGE : LARGE + 3] = b"abc"
    mapping.populate()
    assert bytes(mapping.view[LARGE : LARGE + 3]) == b"abc"


def test_gathered_pages_hold_what_they_held_and_are_large(file: int) -> None:
    content = os.urandom(SIZE)
    before = Mapping(file, writable=True)
    before.view[:] = content
    if not collapse_pages(file):
        pytest.skip("this kernel puts no pages of memory files together")
    assert bytes(before.view) == content
    after = Mapping(file, writable=False)
    assert bytes(after.view) == content
    assert in_large_pages() >= 4 * LARGE


def mapped_files() -> int:
    return Path("/proc/self/maps").read_text().count(memory.MEMORY_NAME)


def in_large_pages() -> int:
    """Bytes of memory files that this process has mapped in large pages."""
    found = re.findall(r"^ShmemPmdMapped: +(\d+) kB", Path("/proc/self/smaps").read_text(), re.M)
    return 1024 * sum(map(int, found))
