"""Every option of the installed torchrun is an option here, with the same spellings."""

from __future__ import annotations

import argparse
import signal

import click
import pytest
from torch.distributed.run import get_args_parser

from resile.cli.commands.run import run
from resile.cli.options.torchrun import (
    IGNORED,
    check_logs_specs,
    given_but_ignored,
    prefix_template,
    read_signals,
)

OF_TORCHRUN = [
    action
    for action in get_args_parser()._actions
    if action.option_strings and not isinstance(action, argparse._HelpAction)
]
OURS = {param.name: param for param in run.params}


@pytest.mark.parametrize("action", OF_TORCHRUN, ids=lambda action: action.dest)
def test_an_option_of_torchrun_has_its_spellings_and_its_variable(action: argparse.Action) -> None:
    ours = OURS[action.dest]
    assert set(action.option_strings) <= set(ours.opts)
    variables = ours.envvar if isinstance(ours.envvar, list) else [ours.envvar]
    assert f"PET_{action.dest.upper()}" in variables


@pytest.mark.parametrize("action", OF_TORCHRUN, ids=lambda action: action.dest)
def test_an_option_without_a_value_has_none_here(action: argparse.Action) -> None:
    ours = OURS[action.dest]
    assert isinstance(ours, click.Option)
    assert ours.is_flag == (action.nargs == 0)


@pytest.mark.parametrize("name", ["log-line-prefix-template", "print-completion"])
def test_options_of_later_versions_are_there(name: str) -> None:
    assert f"--{name}" in OURS[name.replace("-", "_")].opts


@pytest.mark.parametrize(
    ("value", "expected"), [("1", True), ("0", False), ("true", True), ("", False)]
)
def test_a_variable_turns_a_flag_on_and_off(
    value: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PET_STANDALONE", value)
    assert run.make_context("run", ["x.py"]).params["standalone"] is expected
    assert run.make_context("run", ["--standalone", "x.py"]).params["standalone"] is True


def test_a_flag_goes_before_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PET_NNODES", "7")
    assert run.make_context("run", ["x.py"]).params["nnodes"] == "7"
    assert run.make_context("run", ["--nnodes=2", "x.py"]).params["nnodes"] == "2"


def test_the_shutdown_timeout_may_come_from_torchs_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7")
    assert run.make_context("run", ["x.py"]).params["shutdown_timeout"] == 7
    monkeypatch.setenv("PET_SHUTDOWN_TIMEOUT", "8")
    assert run.make_context("run", ["x.py"]).params["shutdown_timeout"] == 8


def test_everything_ignored_that_is_given_is_told() -> None:
    values = {name.replace("-", "_"): "x" for name in IGNORED}
    told = given_but_ignored(dict(values), {"TORCHELASTIC_ENABLE_FILE_TIMER": "1"})
    assert len(told) == len(IGNORED) + 1
    assert all("is ignored: " in line for line in told)
    unset = {"TORCHELASTIC_ENABLE_FILE_TIMER": "0"}
    assert given_but_ignored(dict.fromkeys(values), unset) == []


def test_signals_are_read_by_name() -> None:
    assert read_signals("SIGTERM, SIGUSR1") == (signal.SIGTERM, signal.SIGUSR1)


@pytest.mark.parametrize("text", ["SIGFOO", "TERM", "15", "SIGTERM,SIGKILL", "SIGSTOP"])
def test_what_is_no_signal_to_handle_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="--signals-to-handle"):
        read_signals(text)


def test_logs_specs_that_nobody_registered_are_refused_with_the_known_ones() -> None:
    with pytest.raises(click.UsageError, match=r"--logs-specs nobodys: .* known are default"):
        check_logs_specs("nobodys")
    assert check_logs_specs(None) == check_logs_specs("default") == ""


def test_the_template_of_the_flag_goes_before_the_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", raising=False)
    assert prefix_template(None) == "[rank${rank}] "
    assert prefix_template("") == ""
    monkeypatch.setenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "[${rank}]: ")
    assert prefix_template(None) == "[${rank}]: "
    assert prefix_template("${hostname} ") == "${hostname} "
