"""The parts of Resile that a script imports are preloaded at its very first start."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from resile.agent.nursery.inside.trusted import is_trusted, may_be_preloaded_at_once
from resile.agent.nursery.preload_list import implicit_imports
from resile.agent.nursery.scan import scan
from resile.exports import EXPORTS
from tests.local.nursery.harness import nursery_for, script

Write = Callable[[str, str], Path]

TRAIN = """
import sys
(kept,) = [finder for finder in sys.meta_path if type(finder).__name__ == "DeferredModules"]
print(*(kept.has(f"resile.train.{name}") for name in ("checkpoint.checkpointer", "progress")))
from resile import Checkpointer
"""


async def test_a_checkpointer_is_preloaded_for_the_first_worker(
    tmp_path: Path, write: Write
) -> None:
    write("train.py", TRAIN)
    async with nursery_for(tmp_path, script("train.py")) as harness:
        outcome = await harness.run()
    assert (outcome.returncode, outcome.stdout) == (0, "True True\n"), outcome.stderr


@pytest.mark.parametrize("text", ["from resile import Auto", "import resile\nresile.Auto()"])
def test_a_name_brings_the_module_it_comes_from(tmp_path: Path, write: Write, text: str) -> None:
    write("train.py", text)
    found = implicit_imports(scan(script("train.py"), cwd=str(tmp_path / "work"), env={}))
    assert found == ["resile.train.checkpoint.options"]


@pytest.mark.parametrize(
    "module", sorted({home for home in EXPORTS.values() if may_be_preloaded_at_once(home)})
)
def test_what_is_preloaded_unseen_imports_nothing_of_others(module: str) -> None:
    code = f"import {module}, sys; print(*sys.modules)"
    command = [sys.executable, "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    python = ("__main__", "__mp_main__", "_sysconfigdata")
    imported = [name for name in done.stdout.split() if not name.startswith(python)]
    assert [name for name in imported if not is_trusted(name)] == []
