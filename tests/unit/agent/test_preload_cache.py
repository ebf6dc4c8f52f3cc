"""The preload cache, written by several threads at once."""

from __future__ import annotations

import logging
import threading
from pathlib import Path

import pytest

from resile.agent.nursery.learned_imports import ImportFacts, PreloadCache


def facts(number: int) -> ImportFacts:
    return ImportFacts(
        modules=(f"module{number}",),
        passed_over=frozenset(),
        unfit={},
        approved=frozenset(),
        changed={},
        mentions={},
    )


def test_threads_that_write_at_once_do_not_take_each_others_drafts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    cache = PreloadCache(tmp_path / "preload" / "script.json")

    def write(number: int) -> None:
        for _ in range(50):
            cache.write(facts(number))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "cannot write" not in caplog.text
    assert cache.read() in [facts(number) for number in range(4)]
    assert [file.name for file in cache.path.parent.iterdir()] == ["script.json"]


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    cache = PreloadCache(tmp_path / "script.json")
    cache.path.mkdir()
    cache.write(facts(0))
    assert list(tmp_path.iterdir()) == [cache.path]
