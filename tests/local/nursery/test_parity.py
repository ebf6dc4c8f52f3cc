"""A warm worker behaves exactly like `python script.py`."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resile.agent.nursery import WorkerCommand
from tests.local.nursery.harness import Outcome, module, nursery_for, script

PROBE = Path(__file__).parent / "probe.py"

Write = Callable[[str, str], Path]


async def both(folder: Path, command: WorkerCommand, **env: str) -> tuple[Outcome, Outcome]:
    """Return the outcomes of the command, fresh and warm."""
    async with nursery_for(folder, command, env=env) as harness:
        (running,) = await harness.spawn()
        assert running.worker.warm, running.worker.reason
        return harness.run_fresh(), await running.outcome()


def report(outcome: Outcome) -> dict[str, Any]:
    assert outcome.stderr == ""
    content = json.loads(outcome.stdout)
    assert isinstance(content, dict)
    return content


@pytest.mark.parametrize(
    ("flags", "variables"),
    [
        ((), {}),
        (("-u",), {}),
        (("-O", "-B"), {"PYTHONUNBUFFERED": "1"}),
        (("-W", "error::UserWarning", "-X", "dev"), {}),
        (("-X", "utf8=0"), {"LANG": "C", "PYTHONIOENCODING": "latin-1"}),
        ((), {"PYTHONPATH": "lib:other", "PYTHONHASHSEED": "1"}),
        ((), {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}),
    ],
)
async def test_a_script_sees_the_same_process(
    tmp_path: Path, write: Write, flags: tuple[str, ...], variables: dict[str, str]
) -> None:
    write("train.py", PROBE.read_text())
    command = script("train.py", "--lr", "0.1", "ü", "", flags=flags)
    fresh, warm = await both(tmp_path, command, **variables)
    assert report(warm) == report(fresh)
    assert warm.returncode == fresh.returncode == 7


@pytest.mark.parametrize("target", ["train.py", "./train.py", "sub/../train.py", "link.py"])
async def test_a_script_may_be_named_in_any_way(tmp_path: Path, write: Write, target: str) -> None:
    write("train.py", PROBE.read_text())
    write("sub/note.txt", "")
    (tmp_path / "work" / "link.py").symlink_to("sub/../train.py")
    fresh, warm = await both(tmp_path, script(target))
    assert report(warm) == report(fresh)


@pytest.mark.parametrize("target", ["app", "packed.zip"])
async def test_a_folder_or_archive_with_a_main_file_runs(
    tmp_path: Path, write: Write, target: str
) -> None:
    write("app/__main__.py", "import sys, helper; print(sys.path[0], helper.__file__, __file__)")
    write("app/helper.py", "")
    shutil.make_archive(str(tmp_path / "work" / "packed"), "zip", tmp_path / "work" / "app")
    fresh, warm = await both(tmp_path, script(target))
    assert warm == fresh


@pytest.mark.parametrize("target", ["pack.train", "pack", "lonely"])
async def test_a_module_runs_as_with_the_m_flag(tmp_path: Path, write: Write, target: str) -> None:
    for name in ("pack/train.py", "pack/__main__.py", "lonely.py"):
        write(name, PROBE.read_text())
    write("pack/__init__.py", "")
    fresh, warm = await both(tmp_path, module(target, "a"))
    assert report(warm) == report(fresh)


ENDINGS = {
    "an exception": "def f():\n    raise ValueError('no')\nf()",
    "a chained exception": (
        "try:\n    1/0\nexcept ZeroDivisionError as e:\n    raise KeyError(3) from e"
    ),
    "exit with a code": "import sys; sys.exit(5)",
    "exit with a message": "import sys; sys.exit('sorry')",
    "exit with nothing": "import sys; print('bye', end=''); sys.exit()",
    "an abrupt exit": "import os; print('lost'); os._exit(9)",
    "a syntax error": "def f(:\n    pass",
    "a wrong encoding": "# coding: latin-9000\nprint(1)",
    "an interrupt": "raise KeyboardInterrupt",
    "an interrupt by signal": (
        "import os, signal; os.kill(os.getpid(), signal.SIGINT)\nwhile 1: pass"
    ),
    "termination": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "an abort": "import os; os.abort()",
    "a recursion": "def f(): f()\nf()",
    "a warning": "import warnings; warnings.warn('careful')",
    "an import that fails": "import nowhere_to_be_found",
    "atexit and threads": (
        "import atexit, threading, time\n"
        "atexit.register(print, 'last')\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('thread'))).start()\n"
        "print('main')"
    ),
    "an exception in a thread": (
        "import threading\n"
        "t = threading.Thread(target=lambda: 1 / 0, name='t'); t.start(); t.join()"
    ),
    "unflushed output": "import sys; sys.stdout.write('half a line'); sys.stderr.write('other')",
    "a closed stdout": "import os; os.close(1); print('x')",
    "an error at exit": "import atexit, sys; atexit.register(sys.intern, 3)",
    "a script that forks": (
        "import os\nif os.fork() == 0:\n    print('child', flush=True); os._exit(0)\nos.wait()"
    ),
    "a script that starts a program": (
        "import subprocess, sys\n"
        "print(subprocess.run([sys.executable, '-c', 'import sys; print(sys.argv, sys.path)'],"
        " capture_output=True, text=True))"
    ),
    "objects that live to the end": (
        "import colorsys, os\n"
        "class Last:\n"
        "    def __init__(self, name): self.name = name\n"
        "    def __del__(self): os.write(1, f'{self.name} is gone\\n'.encode())\n"
        "_hidden, first, second = Last('hidden'), Last('first'), Last('second')\n"
        "circle = Last('circle'); circle.itself = circle\n"
        "def function(kept=Last('default')): pass\n"
        "colorsys.kept = Last('in a module')"
    ),
    "an object that lives to the end beside multiprocessing": (
        "import multiprocessing, os, sys\n"
        "class Last:\n"
        "    def __del__(self): os.write(1, b'gone\\n')\n"
        "last = Last(); last.itself = last\n"
        "print(sys.modules['__mp_main__'] is sys.modules['__main__'])"
    ),
    "a stdout that is full": (
        "import os, sys\nos.dup2(os.open('/dev/full', os.O_WRONLY), 1); sys.stdout.write('no room')"
    ),
    "a daemon thread that outlives the script": (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()"
    ),
    "a module of the user's own": "import helper; print(helper.__file__, helper.VALUE)",
    "a broken module of the user's own": "import broken",
}


@pytest.mark.parametrize("flags", [(), ("-u",)], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("ending", ENDINGS)
async def test_it_ends_and_prints_the_same(
    tmp_path: Path, write: Write, ending: str, flags: tuple[str, ...]
) -> None:
    write("train.py", ENDINGS[ending])
    write("helper.py", "VALUE = 3")
    write("broken.py", "\n\nraise RuntimeError('in helper')\n")
    fresh, warm = await both(tmp_path, script("train.py", flags=flags))
    assert warm == fresh


UNCLOSED = """
import bz2, csv, gzip, logging, zipfile
def function(): pass
class Writer:
    def __init__(self, file): self.file = file; self.itself = self
rows = csv.writer(open("rows.csv", "w")); rows.writerow(range(500))
packed = gzip.open("packed.gz", "wt"); packed.write("a line" * 500)
circle = Writer(open("circle.txt", "wb")); circle.file.write(b"x" * 500)
logging.kept = open("kept.txt", "w"); logging.kept.write("y" * 500)
"""


async def test_files_that_were_never_closed_are_written(tmp_path: Path, write: Write) -> None:
    write("train.py", UNCLOSED)
    async with nursery_for(tmp_path, script("train.py")) as harness:
        contents = []
        for warm in (False, True):
            assert (await harness.run() if warm else harness.run_fresh()).returncode == 0
            files = {path.name: path for path in harness.folder.iterdir() if path.suffix != ".py"}
            contents.append({name: path.stat().st_size for name, path in files.items()})
            for path in files.values():
                path.unlink()
    assert contents[1] == contents[0]
    assert all(contents[0].values())


async def test_a_missing_script_is_reported_by_the_interpreter(tmp_path: Path) -> None:
    fresh, warm = await both(tmp_path, script("nowhere.py"))
    assert warm == fresh
    assert warm.returncode == 2


async def test_a_missing_module_is_reported_by_the_interpreter(tmp_path: Path) -> None:
    fresh, warm = await both(tmp_path, module("nowhere.to.be.found"))
    assert warm == fresh


async def test_a_changed_script_is_read_anew(tmp_path: Path, write: Write) -> None:
    write("train.py", "import helper; print('one', helper.VALUE)")
    write("helper.py", "VALUE = 1")
    async with nursery_for(tmp_path, script("train.py")) as harness:
        assert (await harness.run()).stdout == "one 1\n"
        write("train.py", "import helper; print('two', helper.VALUE)")
        write("helper.py", "VALUE = 22")
        assert (await harness.run()).stdout == "two 22\n"


async def test_what_a_library_prints_when_imported_is_printed_by_each_worker(
    tmp_path: Path, write: Write
) -> None:
    write("site-packages/chatty.py", "import sys; print('hello'); print('oops', file=sys.stderr)")
    write("train.py", "import chatty; print('trained')")
    library = str(tmp_path / "work" / "site-packages")
    async with nursery_for(tmp_path, script("train.py"), env={"PYTHONPATH": library}) as harness:
        fresh = harness.run_fresh()
        for running in await harness.spawn(2):
            assert running.worker.warm
            assert await running.outcome() == fresh
    assert fresh.stdout == "hello\ntrained\n"


async def test_a_sitecustomize_of_the_machine_still_runs(tmp_path: Path, write: Write) -> None:
    write("lib/sitecustomize.py", "print('customized')")
    write("train.py", "import sitecustomize; print(sitecustomize.__file__)")
    library = str(tmp_path / "work" / "lib")
    fresh, warm = await both(tmp_path, script("train.py"), PYTHONPATH=library)
    assert sorted(warm.stdout.splitlines()) == sorted(fresh.stdout.splitlines())


async def test_a_broken_sitecustomize_is_reported_by_each_worker(
    tmp_path: Path, write: Write
) -> None:
    write("lib/sitecustomize.py", "raise RuntimeError('broken')")
    write("train.py", "print('trained')")
    library = str(tmp_path / "work" / "lib")
    fresh, warm = await both(tmp_path, script("train.py"), PYTHONPATH=library)
    assert warm == fresh


async def test_on_a_terminal_output_is_buffered_by_the_line(tmp_path: Path, write: Write) -> None:
    write("train.py", "import sys; print(sys.stdout.line_buffering, sys.stdout.isatty())")
    async with nursery_for(tmp_path, script("train.py", flags=())) as harness:
        ours, theirs = os.openpty()
        try:
            worker = await harness.spawn_on(theirs)
            assert await worker.wait() == 0
            assert os.read(ours, 100).split() == [b"True", b"True"]
        finally:
            os.close(ours)
            os.close(theirs)
