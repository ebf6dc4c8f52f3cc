"""Mistakes in a Checkpointer's arguments are reported by its constructor, by argument name."""

from __future__ import annotations

from typing import Any

import pytest

from resile import Auto
from resile.train.checkpoint.options import check_arguments


@pytest.mark.parametrize("name", ["every", "checkpoint_every", "keep"])
@pytest.mark.parametrize("wrong", ["10", 1.5, 10.0, True, -1, [10], b"1"])
def test_what_is_no_number_of_steps_is_refused(name: str, wrong: Any) -> None:
    arguments: dict[str, Any] = {"every": 1, "checkpoint_every": None, "keep": 3}
    with pytest.raises(ValueError, match=rf"^{name} must be .*; not "):
        check_arguments(**{**arguments, name: wrong}, storage_options=None)


@pytest.mark.parametrize("wrong", ["../x", "Train", "a b"])
def test_what_is_no_groups_name_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"^group must be .*; not "):
        check_arguments(1, None, 3, None, wrong)


def test_none_of_that_is_said_of_what_is_right() -> None:
    check_arguments(10, 20, 0, None)
    check_arguments(Auto(), 20, 3, {"key": "x"}, "ps/0")
