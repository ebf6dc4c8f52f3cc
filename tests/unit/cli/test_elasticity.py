"""--nnodes and --rdzv-conf, as users write them."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.cli.options.rdzv import build_elasticity, parse_conf, parse_nnodes
from resile.job.elasticity import Elasticity


@pytest.mark.parametrize(("text", "sizes"), [("1", (1, 1)), ("4", (4, 4)), ("2:4", (2, 4))])
def test_one_number_or_two_are_understood(text: str, sizes: tuple[int, int]) -> None:
    assert parse_nnodes(text) == sizes


@pytest.mark.parametrize(
    "text", ["", "x", "1:", ":2", "1:2:3", "-1", "1.5", "²", "1:²", "0", "3:2", "9" * 5000]
)
def test_anything_else_is_a_usage_error_that_names_the_flag(text: str) -> None:
    with pytest.raises(click.UsageError, match="--nnodes"):
        parse_nnodes(text)


@given(st.text(max_size=20))
def test_any_text_is_sizes_or_a_usage_error(text: str) -> None:
    try:
        low, high = parse_nnodes(text)
    except click.UsageError:
        return
    assert 1 <= low <= high


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("", {}),
        (" , ", {}),
        ("lease=2", {"lease": 2}),
        ("lease=2,last_call_timeout=0.5", {"lease": 2, "last_call": 0.5}),
        ("last-call=1, timeout=9", {"last_call": 1, "join_timeout": 9}),
        ("node_unit=2,max_restarts=0", {"node_unit": 2, "max_restarts": 0}),
        ("'join_timeout=5,last_call_timeout=1'", {"join_timeout": 5, "last_call": 1}),
        ('"lease=2"', {"lease": 2}),
    ],
)
def test_settings_are_understood_under_all_their_names(
    text: str, settings: dict[str, float]
) -> None:
    assert parse_conf(text).settings == settings


def test_settings_of_other_backends_are_passed_over_and_told() -> None:
    conf = parse_conf("read_timeout=60,lease=3,is_host=true")
    assert conf.settings == {"lease": 3}
    assert set(conf.ignored) == {"read_timeout", "is_host"}


@pytest.mark.parametrize(
    "text",
    [
        *("lease", "lease=", "lease=x", "lease=nan", "lease=inf", "leese=1", "min_nodes=1"),
        *("=1", "=", "node_unit=1.5", "node_unit=nan", "max_restarts=inf"),
    ],
)
def test_other_settings_are_usage_errors_that_name_the_flag(text: str) -> None:
    with pytest.raises(click.UsageError, match="--rdzv-conf"):
        parse_conf(text)


def test_a_misspelt_setting_gets_a_suggestion() -> None:
    with pytest.raises(click.UsageError, match="did you mean lease"):
        parse_conf("leese=1")


@given(st.text(max_size=40))
def test_any_text_is_settings_or_a_usage_error(text: str) -> None:
    try:
        conf = parse_conf(text)
    except click.UsageError:
        return
    assert set(conf.settings) <= set(Elasticity.__struct_fields__)


def test_flags_and_settings_come_together() -> None:
    built = build_elasticity("2:4", parse_conf("lease=2"), max_restarts=7, node_unit=2)
    assert built == Elasticity(min_nodes=2, max_nodes=4, lease=2, max_restarts=7, node_unit=2)


def test_restarts_in_the_settings_go_before_the_default() -> None:
    assert build_elasticity("1", parse_conf("max_restarts=9"), max_restarts=3).max_restarts == 9


@pytest.mark.parametrize(
    ("nnodes", "conf", "said"),
    [
        ("1", "lease=0", "lease"),
        ("1", "lease=-1", "lease"),
        ("1", "join_timeout=0", "join_timeout"),
        ("2", "node_unit=3", "node_unit"),
        ("1", "node_unit=0", "node_unit"),
        ("1", "max_restarts=-1", "max_restarts"),
        ("1", "last_call=-0.1", "last_call"),
        ("1", "join_settle=-1", "join_settle"),
    ],
)
def test_what_no_job_could_be_is_a_usage_error_that_names_the_field(
    nnodes: str, conf: str, said: str
) -> None:
    with pytest.raises(click.UsageError, match=said):
        build_elasticity(nnodes, parse_conf(conf), max_restarts=3)
