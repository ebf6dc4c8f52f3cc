"""Bad input is reported in one clear line."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.__main__ import cli


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["recovery", "--peers", "torchrum"], "no launcher 'torchrum'; known: dlrover"),
        (["recovery", "--kills", "0"], "0 is not in the range x>=1"),
        (["recovery", "--only", "nothing"], "'nothing' is not one of"),
        (["scale", "--sizes", "many"], "'many' is no list of numbers"),
        (["scale", "--sizes", "1"], "needs at least 2"),
    ],
)
def test_a_wrong_option_is_named(arguments: list[str], said: str) -> None:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2
    assert said in done.output


def test_showing_or_drawing_nothing_says_what_to_run(tmp_path: Path) -> None:
    for command in ("show", "plot"):
        done = CliRunner().invoke(cli, [command, "--out", str(tmp_path)])
        assert done.exit_code == 1
        assert "run `python -m bench recovery` first" in done.output
