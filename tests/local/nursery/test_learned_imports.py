"""Workers report what they import, and it is preloaded for later workers."""

import asyncio
import json
import logging
import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from resile.agent.nursery import NurseryPolicy
from resile.agent.nursery.inside.import_recorder import Changed, UnfitPackage
from resile.agent.nursery.learned_imports import ImportReports
from tests.local.nursery.harness import Running, is_alive, nursery_for, script, until

Write = Callable[[str, str], Path]

EAGER = NurseryPolicy(quiet=0.1, worthwhile=1, successor_share=1.0)

HIDDEN = """
import importlib, sys, time
(kept,) = [finder for finder in sys.meta_path if type(finder).__name__ == "DeferredModules"]
print("there" if kept.has("colorsys") else "missing", "colorsys" in sys.modules, flush=True)
importlib.import_module("color" + "sys")
importlib.import_module("hel" + "per")
print("meta", [type(finder).__name__ for finder in sys.meta_path], flush=True)
time.sleep(600)
"""


async def first_word(running: Running) -> str:
    await running.printed("meta")
    return running.stdout.read_text().split()[0]


def cached_modules(folder: Path) -> list[str]:
    (file,) = (folder / "cache" / "resile" / "preload").glob("*.json")
    modules = json.loads(file.read_text())["modules"]
    assert isinstance(modules, list)
    return modules


async def test_what_workers_import_is_preloaded_by_a_successor(
    tmp_path: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="resile")
    write("train.py", HIDDEN)
    write("helper.py", "")
    async with nursery_for(tmp_path, script("train.py"), policy=EAGER) as harness:
        (first,) = await harness.spawn()
        assert await first_word(first) == "missing"
        await until(lambda: "workers start warm from now on" in caplog.text)
        (second,) = await harness.spawn()
        assert await first_word(second) == "there"
        former, latter = (psutil.Process(running.worker.pid).ppid() for running in (first, second))
        assert former != latter
        assert is_alive(former), "it is still the first worker's parent"
        os.kill(first.worker.pid, 9)
        await first.worker.wait()
        await until(lambda: not is_alive(former))
        assert is_alive(latter)
    assert "colorsys" in cached_modules(tmp_path)
    assert "helper" not in cached_modules(tmp_path)


async def test_the_next_launch_is_warm_at_once(tmp_path: Path, write: Write) -> None:
    write("train.py", HIDDEN)
    write("helper.py", "")
    for word in ("missing", "there"):
        policy = NurseryPolicy(quiet=0.1)
        async with nursery_for(tmp_path, script("train.py"), policy=policy) as harness:
            (running,) = await harness.spawn()
            assert await first_word(running) == word
            await until(lambda: "colorsys" in cached_modules(tmp_path))


async def test_a_successor_takes_over_without_disturbing_workers(
    tmp_path: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="resile")
    write("train.py", HIDDEN)
    write("helper.py", "")
    async with nursery_for(tmp_path, script("train.py"), policy=EAGER) as harness:
        workers = await harness.spawn(2)
        await until(lambda: "from now on" in caplog.text)
        workers += await harness.spawn(2)
        for running in workers:
            await running.printed("meta")
            running.worker.signal(15)
        assert [await running.worker.wait() for running in workers] == [-15] * 4


async def test_children_of_a_worker_inherit_nothing_of_the_recorder(
    tmp_path: Path, write: Write
) -> None:
    write("train.py", "import os, colorsys; os.execvp('ls', ['ls', '/proc/self/fd'])")
    async with nursery_for(tmp_path, script("train.py")) as harness:
        assert (await harness.run()).stdout.split() == ["0", "1", "2", "3"]


async def test_names_are_handed_on_once_and_when_it_is_quiet() -> None:
    handed: list[list[str]] = []
    remarks: list[object] = []
    reports = ImportReports(quiet=0.05, on_quiet=handed.append, on_remark=remarks.append)
    try:
        reports.know(["a"])
        os.write(reports.write_end, b"a\nb\nc")
        await asyncio.sleep(0)
        os.write(reports.write_end, b"c\nb\n")
        await until(lambda: handed)
        os.write(reports.write_end, b"b\nd\n")
        os.write(reports.write_end, b"=b\tOMP\tHF_HOME\n=b\tOMP\tHF_HOME\n!b\ttoo early\n")
        await until(lambda: len(handed) == 2 and len(remarks) == 2)
        os.write(reports.write_end, b"e\n")
    finally:
        assert reports.close() == ["e"], "what was not handed on is not lost"
    assert handed == [["b", "cc"], ["d"]]
    assert remarks == [Changed("b", ("OMP", "HF_HOME")), UnfitPackage("b", "too early")]
