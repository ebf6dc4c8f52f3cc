"""Suggestions for misspelled names."""

from __future__ import annotations

import pytest

from resile.cli.output.suggestions import closest

FLAGS = ["--nnodes", "--nproc-per-node", "--node-rank", "--rdzv-endpoint", "--rdzv-id", "--tee"]


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("--nprocs", "--nproc-per-node"),
        ("--nproc_per_nod", "--nproc-per-node"),
        ("--nnode", "--nnodes"),
        ("--rdzv-endpont", "--rdzv-endpoint"),
        ("--RDZV_ID", "--rdzv-id"),
        ("--node_rnk", "--node-rank"),
    ],
)
def test_a_slip_finds_what_was_meant(given: str, meant: str) -> None:
    assert closest(given, FLAGS) == meant


@pytest.mark.parametrize("given", ["--frobnicate", "--x", "-", ""])
def test_nothing_is_suggested_for_what_is_like_nothing(given: str) -> None:
    assert closest(given, FLAGS) is None


def test_nothing_is_suggested_where_nothing_is_known() -> None:
    assert closest("--nnodes", []) is None
