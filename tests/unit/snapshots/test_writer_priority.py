"""The nice value of the writer process, from its variable."""

from __future__ import annotations

import pytest

from resile.snapshots.writer.__main__ import _nice_value


@pytest.mark.parametrize(("text", "value"), [("", 19), ("0", 0), ("5", 5), ("19", 19)])
def test_the_variable_sets_it(text: str, value: int, capfd: pytest.CaptureFixture[str]) -> None:
    assert _nice_value(text) == value
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("text", ["20", "-5", "low", "1.5"])
def test_a_value_that_it_cannot_have_is_named(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert _nice_value(text) == 19
    message = f"resile: $RESILE_WRITER_NICE={text}: expected a number from 0 to 19; using 19\n"
    assert capfd.readouterr().err == message
