"""Programs whose output is shown only when they fail."""

import sys
from pathlib import Path

import pytest

from devcluster.errors import BuildFailed
from devcluster.images.programs import logged, output


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_goes_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "log"
    logged(python("print('hello')"), log=log)
    assert "hello" in log.read_text().splitlines()


def test_a_failure_shows_its_own_last_lines_and_not_those_before(tmp_path: Path) -> None:
    log = tmp_path / "log"
    logged(python("print('earlier')"), log=log)
    with pytest.raises(BuildFailed) as failure:
        logged(python("print('the reason'); raise SystemExit(3)"), log=log)
    assert "exit code 3" in str(failure.value)
    assert "the reason" in str(failure.value)
    assert "earlier" not in str(failure.value)


def test_extra_variables_reach_the_program() -> None:
    code = "import os; print(os.environ['BUILDAH_ISOLATION'])"
    assert output(python(code), extra={"BUILDAH_ISOLATION": "chroot"}) == "chroot"


def test_a_question_without_an_answer() -> None:
    assert output(python("raise SystemExit(1)")) is None
