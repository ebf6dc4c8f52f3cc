"""Waiting children run the warm-up hooks of preloaded modules."""

from collections.abc import Callable
from pathlib import Path

from resile.agent.nursery import Preload, PreloadMode
from tests.local.nursery.harness import nursery_for, script, until

Write = Callable[[str, str], Path]

LIBRARY = """
import os, pathlib, sys
sys.modules["kept_from_being_imported"] = None
done_in = None

def __resile_rehearse__():
    global done_in
    done_in = os.getpid()
    (pathlib.Path(os.environ["MARKS"]) / str(done_in)).touch()
    raise RuntimeError("nobody hears of this")
"""

LAZY = """
def __getattr__(name):
    raise SystemExit(f"asked for {name}")
"""

TRAIN = "import lazy, os, rehearsed; print(rehearsed.done_in == os.getpid())"


async def test_what_waits_rehearses_and_a_failure_does_no_harm(
    tmp_path: Path, write: Write
) -> None:
    write("site-packages/rehearsed.py", LIBRARY)
    write("site-packages/lazy.py", LAZY)
    write("train.py", TRAIN)
    marks = tmp_path / "marks"
    marks.mkdir()
    env = {"PYTHONPATH": str(tmp_path / "work" / "site-packages"), "MARKS": str(marks)}
    listed = Preload(PreloadMode.LISTED, ("lazy", "rehearsed"))
    async with nursery_for(tmp_path, script("train.py"), env=env, preload=listed) as harness:
        (first,) = await harness.spawn()
        await first.outcome()
        seen = set(marks.iterdir())
        await until(lambda: set(marks.iterdir()) > seen)
        (waited,) = await harness.spawn()
        assert waited.worker.warm
        assert (await waited.outcome()).stdout.strip() == "True"
