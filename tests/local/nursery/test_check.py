"""`--preload check` reports how warm workers differ from cold ones."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from resile.agent.nursery import CheckFailed, CheckResult, check_preload
from resile.agent.nursery.check import Difference, compare
from resile.wire.endpoint import free_port
from tests.local.nursery.harness import environment, script

Write = Callable[[str, str], Path]

HARMLESS = """
import logging, os, random, sys
import inert
logging.basicConfig(level=20)
os.environ["MINE"] = "1"
random.seed(3)
print("trained", random.random(), sys.argv)
"""


async def checked(folder: Path, **env: str) -> CheckResult:
    variables = {**environment(folder), **env}
    return await check_preload(
        script("train.py"), env=variables, cwd=str(folder / "work"), port=free_port()
    )


async def test_a_script_without_differences_passes(tmp_path: Path, write: Write) -> None:
    write("site-packages/inert.py", "VALUE = 3")
    write("train.py", HARMLESS)
    path = str(tmp_path / "work" / "site-packages")
    assert await checked(tmp_path, PYTHONPATH=path) == CheckResult((), "")


async def test_what_a_script_sees_of_the_difference_is_reported(
    tmp_path: Path, write: Write
) -> None:
    """Resile's own import finders exist only in warm workers."""
    write(
        "train.py",
        """
        import logging, os, random, sys
        warm = any(type(finder).__name__ == "DeferredModules" for finder in sys.meta_path)
        print("warm" if warm else "cold")
        os.environ["KIND"] = str(warm)
        logging.basicConfig(level=10 if warm else 20)
        random.seed(warm)
        kept = open(os.devnull) if warm else None
        sys.exit(3 if warm else 4)
        """,
    )
    result = await checked(tmp_path)
    found = {difference.where: difference for difference in result.differences}
    assert found["environment: KIND"] == Difference("environment: KIND", "False", "True")
    assert found["open descriptors"].warm == "['/dev/null']"
    assert found["output"].cold == "['cold']"
    assert found["exit code"].warm == "3"
    assert {"logging: root", "random generators: random"} <= set(found)
    assert "(nothing)" not in str(result.differences)


async def test_a_script_that_cannot_be_looked_at_is_an_error(tmp_path: Path, write: Write) -> None:
    write("train.py", "import os, sys; print('sorry', file=sys.stderr, flush=True); os._exit(5)")
    with pytest.raises(CheckFailed, match=r"code 5 .* sorry"):
        await checked(tmp_path)


def test_what_differs_anyway_is_no_difference_unless_workers_share_it() -> None:
    def run(generator: str, time: str) -> dict[str, object]:
        return {"random generators": {"numpy": generator}, "output": [time], "environment": {}}

    cold = [run("a", "1"), run("b", "2")]
    assert compare(cold, [run("c", "3"), run("d", "4")]) == []
    (shared,) = compare(cold, [run("c", "3"), run("c", "4")])
    assert shared.where == "random generators: numpy"
    assert os.linesep not in str(shared)
