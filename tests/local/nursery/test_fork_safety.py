"""Cases in which workers start cold, and the log lines about them."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resile.agent.nursery import NurseryPolicy, Preload, PreloadMode
from resile.agent.nursery.inside.fork_safety import held_device
from tests.local.nursery.harness import nursery_for, script, until

Write = Callable[[str, str], Path]

EAGER = NurseryPolicy(quiet=0.1, worthwhile=1, successor_share=1.0)


def installed(folder: Path) -> dict[str, str]:
    """Make `folder/site-packages` a folder of installed libraries."""
    return {"PYTHONPATH": str(folder / "work" / "site-packages")}


def cached(folder: Path, field: str) -> Any:
    """A field of the preload cache for the only script."""
    for file in (folder / "cache" / "resile" / "preload").glob("*.json"):
        return json.loads(file.read_text())[field]
    return {}


TROUBLE = {
    "a Python thread": (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,), daemon=True, name='beat').start()",
        "runs the thread 'beat'",
    ),
    "a thread of the C library's": (
        "import _thread, time\n_thread.start_new_thread(time.sleep, (600,))",
        "runs a thread",
    ),
    "another process": (
        "import os, time\nif os.fork() == 0:\n    time.sleep(600)\n    os._exit(0)",
        "starts another process",
    ),
    "a crash": ("import os\nos.abort()", "SIGABRT"),
    "an exit": ("import os, sys\nprint('gone', file=sys.stderr)\nos._exit(3)", "code 3: gone"),
}

IN_A_NURSERY = "import sys\nif '_resile_nursery.serve' in sys.modules:\n"


@pytest.mark.parametrize("trouble", TROUBLE)
async def test_a_library_that_cannot_be_forked_is_left_to_the_workers(
    tmp_path: Path, write: Write, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It was not preloaded before it was tried, so no worker had to start cold because of it."""
    caplog.set_level(logging.INFO, logger="resile")
    text, said = TROUBLE[trouble]
    write("site-packages/troublesome/__init__.py", f"{IN_A_NURSERY}{_indented(text)}\n")
    write("site-packages/troublesome/part.py", "")
    write("site-packages/harmless.py", "")
    write("site-packages/user.py", "import troublesome.part")
    write("train.py", "import harmless, user, bz2; print('trained')")
    env = installed(tmp_path)
    async with nursery_for(tmp_path, script("train.py"), env=env, policy=EAGER) as harness:
        assert (await harness.run()).stdout == "trained\n"
        await until(lambda: "workers start warm from now on" in caplog.text)
        (running,) = await harness.spawn()
        assert running.worker.warm
        assert (await running.outcome()).stdout == "trained\n"
    assert "workers start cold" not in caplog.text
    assert {"harmless", "bz2"} <= set(cached(tmp_path, "approved"))
    assert not {"user", "troublesome", "troublesome.part"} & set(cached(tmp_path, "approved"))
    assert said in cached(tmp_path, "unfit")[min(cached(tmp_path, "unfit"))]


async def test_one_attempt_tells_of_all_that_import_what_must_stay_out(
    tmp_path: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever their number: a nursery tries only a few times."""
    caplog.set_level(logging.INFO, logger="resile")
    write("site-packages/whole/__init__.py", "import os; os.environ.get('RANK')")
    write("site-packages/whole/part.py", "")
    importers = [f"importer{number}" for number in range(2 * EAGER.successor_attempts)]
    for name in importers:
        write(f"site-packages/{name}.py", "import whole.part")
    write("site-packages/further.py", f"import {importers[-1]}")
    write("site-packages/harmless.py", "")
    write("train.py", f"import {', '.join(importers)}, further, harmless; print('trained')")
    env = installed(tmp_path)
    async with nursery_for(tmp_path, script("train.py"), env=env, policy=EAGER) as harness:
        assert (await harness.run()).stdout == "trained\n"
        await harness.nursery.learn()
        assert "workers start warm from now on" in caplog.text
    assert "harmless" in cached(tmp_path, "approved")
    unfit = cached(tmp_path, "unfit")
    assert set(unfit) == {"whole", "further", *importers}
    assert unfit["further"] == "it imports whole, which reads $RANK"


def _indented(text: str) -> str:
    return "\n".join("    " + line for line in text.splitlines())


async def test_listed_modules_that_cannot_be_forked_are_left_out_at_once(
    tmp_path: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="resile")
    text, said = TROUBLE["a Python thread"]
    write("site-packages/troublesome.py", text)
    write("train.py", "import troublesome; print('trained')")
    async with nursery_for(
        tmp_path,
        script("train.py"),
        env=installed(tmp_path),
        preload=Preload(PreloadMode.LISTED, ("troublesome",)),
    ) as harness:
        (running,) = await harness.spawn()
        assert running.worker.warm
        assert (await running.outcome()).stdout == "trained\n"
    assert f"importing troublesome in the nursery: it {said}" in caplog.text
    assert "workers start cold" not in caplog.text


async def test_an_import_that_never_ends_is_given_up(
    tmp_path: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="resile")
    write("site-packages/slow.py", f"{IN_A_NURSERY}    import time; time.sleep(600)")
    write("train.py", "import slow; print('trained')")
    async with nursery_for(
        tmp_path,
        script("train.py"),
        env=installed(tmp_path),
        policy=NurseryPolicy(warm_up_limit=1.0),
        preload=Preload(PreloadMode.LISTED, ("slow",)),
    ) as harness:
        assert (await harness.run()).stdout == "trained\n"
    assert "importing slow in the nursery: it took longer than 1 s" in caplog.text


@pytest.mark.parametrize(
    "failure", ["raise ValueError", "import sys; sys.exit(3)", "raise KeyboardInterrupt", "def f(:"]
)
async def test_an_import_that_fails_is_left_to_the_worker(
    tmp_path: Path, write: Write, failure: str
) -> None:
    write("site-packages/failing.py", failure)
    write("train.py", "import failing")
    env = installed(tmp_path)
    async with nursery_for(tmp_path, script("train.py"), env=env) as harness:
        (running,) = await harness.spawn()
        assert running.worker.warm
        assert await running.outcome() == harness.run_fresh()


async def test_a_module_that_hides_a_library_is_respected(tmp_path: Path, write: Write) -> None:
    write("train.py", "import json; print(json.MINE)")
    write("json.py", "MINE = 1")
    async with nursery_for(tmp_path, script("train.py")) as harness:
        (running,) = await harness.spawn()
        assert not running.worker.warm
        assert "'json'" in running.worker.reason
        assert (await running.outcome()).stdout == "1\n"


async def test_a_module_that_comes_to_hide_a_library_later_is_respected(
    tmp_path: Path, write: Write
) -> None:
    write("train.py", "import colorsys; print(colorsys.__file__)")
    async with nursery_for(tmp_path, script("train.py")) as harness:
        assert "work" not in (await harness.run()).stdout
        write("colorsys/__init__.py", "")
        assert "work/colorsys" in (await harness.run()).stdout
        (tmp_path / "work" / "colorsys" / "__init__.py").unlink()
        (running,) = await harness.spawn()
        assert running.worker.warm


async def test_a_library_that_loads_the_users_modules_is_not_preloaded(
    tmp_path: Path, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="resile")
    write("site-packages/plugin_host.py", "import plugin; VALUE = plugin.VALUE")
    write("lib/plugin.py", "VALUE = 1")
    write("train.py", "import plugin_host; print(plugin_host.VALUE)")
    work = tmp_path / "work"
    env = {"PYTHONPATH": f"{work / 'site-packages'}:{work / 'lib'}"}
    async with nursery_for(tmp_path, script("train.py"), env=env, policy=EAGER) as harness:
        assert (await harness.run()).stdout == "1\n"
        await until(lambda: "plugin_host" in cached(tmp_path, "unfit"))
        write("lib/plugin.py", "VALUE = 22")
        (running,) = await harness.spawn()
        assert running.worker.warm
        assert (await running.outcome()).stdout == "22\n"
    assert "loads 'plugin'" in cached(tmp_path, "unfit")["plugin_host"]


async def test_listed_modules_are_preloaded_and_nothing_else(tmp_path: Path, write: Write) -> None:
    write(
        "train.py",
        """
        import sys
        (kept,) = [finder for finder in sys.meta_path if type(finder).__name__ == "DeferredModules"]
        print(kept.has("chunk"), kept.has("colorsys"))
        import colorsys
        """,
    )
    preload = Preload(PreloadMode.LISTED, ("chunk", "nowhere"))
    async with nursery_for(tmp_path, script("train.py"), preload=preload) as harness:
        assert (await harness.run()).stdout == "True False\n"


async def test_an_interpreter_that_overlooks_the_hook_never_runs_the_script_by_mistake(
    tmp_path: Path, write: Write
) -> None:
    """PYTHONPATH is ignored by an interpreter whose build or wrapper says so."""
    write("train.py", "import os; open('trace', 'a').write(os.environ.get('RANK', 'none') + ' ')")
    wrapper = tmp_path / "python"
    wrapper.write_text('#!/bin/sh\nunset PYTHONPATH\nexec python3 "$@"\n')
    wrapper.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.executable", str(wrapper))
        command = script("train.py")
        async with nursery_for(tmp_path, command) as harness:
            (running,) = await harness.spawn()
            assert not running.worker.warm
            assert "sitecustomize" in running.worker.reason
            assert (await running.outcome()).returncode == 0
    assert (tmp_path / "work" / "trace").read_text() == "0 "


def test_an_open_accelerator_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "3").symlink_to("/dev/null")
    (tmp_path / "4").symlink_to("socket:[1234]")
    assert held_device(str(tmp_path)) is None
    (tmp_path / "5").symlink_to("/dev/nvidiactl")
    assert held_device(str(tmp_path)) == "/dev/nvidiactl"
    assert held_device(str(tmp_path / "nowhere")) is None
