"""Abbreviated flags: accepted as by torchrun's parser, with the same meaning."""

from __future__ import annotations

import argparse
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.cli.commands.run import run
from resile.cli.options.torchrun import TorchrunOption, full_names

TORCHRUN = [p for p in run.params if isinstance(p, TorchrunOption)]
NAMES = [p.opts[0].removeprefix("--") for p in TORCHRUN]


def parsed(*words: str) -> dict[str, Any]:
    """The flags as parsed by `resile run`."""
    return run.make_context("run", [*words, "script.py"]).params


@pytest.mark.parametrize(
    ("word", "flag", "value"),
    [
        ("--redirect=3", "redirects", "3"),
        ("--re=3", "redirects", "3"),
        ("--nproc=2", "nproc_per_node", "2"),
        ("--nproc_per=2", "nproc_per_node", "2"),
        ("--master-p=1234", "master_port", 1234),
        ("--max=1", "max_restarts", 1),
        ("--stand", "standalone", True),
        ("--log-line='${rank}'", "log_line_prefix_template", "'${rank}'"),
        ("--log_line_prefix=x", "log_line_prefix_template", "x"),
        ("--restart=2", "restart_grace", 2.0),
        ("-r3", "redirects", "3"),
        ("-t3", "tee", "3"),
        ("--node=1", "node_rank", 1),
        ("-m", "module", True),
    ],
)
def test_an_abbreviation_stands_for_the_only_flag_that_begins_so(
    word: str, flag: str, value: object
) -> None:
    assert parsed(word)[flag] == value


@pytest.mark.parametrize("word", ["--ma=1", "--rdzv=x", "--r", "--n=1", "--log=x", "--x", "--"])
def test_an_ambiguous_or_unknown_word_is_refused(word: str) -> None:
    if word == "--":
        assert full_names(word, run.params) == []
        return
    with pytest.raises(click.NoSuchOption):
        parsed(word)


def test_words_after_the_script_are_the_scripts() -> None:
    context = run.make_context("run", ["script.py", "--redirect=3", "--ma", "x"])
    assert context.params["script_args"] == ("--redirect=3", "--ma", "x")
    assert context.params["redirects"] == "0"


@given(st.sampled_from(NAMES), st.integers(2, 30))
def test_what_argparse_would_take_is_taken_for_the_same_flag(name: str, letters: int) -> None:
    theirs = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    for known in NAMES:
        theirs.add_argument(f"--{known}", nargs="?")
    abbreviated = f"--{name[:letters]}"
    try:
        found = vars(theirs.parse_known_args([abbreviated, "given"])[0])
        meant = [key for key, value in found.items() if value == "given"]
    except (argparse.ArgumentError, SystemExit):
        meant = []
    ours = [n.removeprefix("--").replace("-", "_") for n in full_names(abbreviated, run.params)]
    exact = [key for key in meant if key.replace("_", "-") == name[:letters]]
    assert meant == exact or ours == meant
