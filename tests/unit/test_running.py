"""The result of a run of tests in parts: its exit code, and the duration of each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import durations, running
from tests.running import run_tests

SIDE_BY_SIDE = "def test_one(): pass\ndef test_other(): pass\n"
ALONE = "import pytest\n@pytest.mark.alone\ndef test_all_for_itself(): pass\n"
FAILS_ONCE = """
from pathlib import Path
def test_slow():
    mark = Path(__file__).with_name("tried")
    first = not mark.exists()
    mark.touch()
    assert not first
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with another project's tests, which use the mark."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = alone\n")
    hooks = "from tests.durations import pytest_addoption, pytest_terminal_summary\n"
    own = "import tests.durations\ntests.durations.FOLDER = __import__('pathlib').Path('kept')\n"
    (tmp_path / "conftest.py").write_text(hooks + own)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take a second to import
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(durations, "FOLDER", tmp_path / "kept")
    return tmp_path


def run(folder: Path, **files: str) -> int:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return run_tests("part", at_once=(), where=(str(folder),))


def test_every_test_runs_once_and_its_time_is_kept(folder: Path) -> None:
    assert run(folder, test_a=SIDE_BY_SIDE, test_b=ALONE) == 0
    kept = {name: (folder / "kept" / f"{name}.txt").read_text() for name in ("part", "part-alone")}
    assert kept["part"].count("::") == 2
    assert kept["part-alone"].split()[1] == "test_b.py::test_all_for_itself"
    said = durations.slowest()
    assert said.count("::") == 3
    assert (folder / "kept" / "slowest.txt").read_text() == said


def test_what_fails_beside_others_may_pass_alone(folder: Path) -> None:
    assert run(folder, test_a=SIDE_BY_SIDE, test_b=FAILS_ONCE) == 0


@pytest.mark.parametrize("mark", ["", "@__import__('pytest').mark.alone\n"])
def test_what_is_broken_fails_the_run(folder: Path, mark: str) -> None:
    broken = f"{mark}def test_broken(): assert False\n"
    assert run(folder, test_a=SIDE_BY_SIDE, test_b=broken) == pytest.ExitCode.TESTS_FAILED


def test_too_many_failures_are_not_tried_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "FEW", 0)
    assert run(folder, test_b=FAILS_ONCE) == pytest.ExitCode.TESTS_FAILED


def test_nothing_to_run_is_no_success(folder: Path) -> None:
    assert run(folder) == pytest.ExitCode.NO_TESTS_COLLECTED
