"""--nproc-per-node."""

from __future__ import annotations

import os

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resile.cli.options.nproc import count_processes
from resile.job.limits import MAX_WORKERS


@given(st.integers(1, MAX_WORKERS))
def test_a_number_is_that_many(number: int) -> None:
    assert count_processes(str(number)) == number


def test_cpu_is_one_for_each_that_may_be_used() -> None:
    assert count_processes("cpu") == len(os.sched_getaffinity(0))


def test_auto_is_at_least_one() -> None:
    assert count_processes("auto") >= 1


def test_no_gpu_is_an_error_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(click.UsageError, match="no gpu was found"):
        count_processes("gpu")


def test_without_a_gpu_to_see_auto_means_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert count_processes("auto") == count_processes("cpu")


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "²", "many", "CPU", "9" * 5000, "4097"])
def test_anything_else_is_a_usage_error_that_names_the_flag(text: str) -> None:
    with pytest.raises(click.UsageError, match="--nproc-per-node"):
        count_processes(text)


@given(st.text(max_size=10).filter(lambda text: text not in {"gpu"}))
def test_any_text_is_a_number_or_a_usage_error(text: str) -> None:
    try:
        assert count_processes(text) >= 1
    except click.UsageError:
        return
