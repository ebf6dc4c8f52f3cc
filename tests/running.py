"""Runs of pytest for `make test` and `make test-cluster`: in parallel, alone, and repeated."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

FEW = 10
"""More failures than this are not caused by a slow machine."""

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")


def run_tests(name: str, *, at_once: Sequence[str], where: Sequence[str]) -> int:
    """Run tests in parallel, then those marked ``alone``, then the few that failed in parallel.

    Many tests kill and pause real processes and wait for the effect. In parallel with others, a
    slow machine may make one of them time out. A test of broken code fails alone as well.

    Returns:
        The exit code: 0 if everything passed in the end.
    """
    beside = _pytest("--cache-clear", *at_once, "-m", "not alone", *_kept(name), *where)
    failed = _last_failed() if beside == pytest.ExitCode.TESTS_FAILED else []
    alone = _pytest("-m", "alone", *_kept(f"{name}-alone"), *where)
    if 0 < len(failed) <= FEW:
        print(f"{len(failed)} failed beside other tests; running them again, alone:", flush=True)
        beside = _pytest(*failed)
    return _outcome(beside, alone)


def _outcome(*codes: int) -> int:
    """The first exit code that is a failure; "no tests collected" only if it holds for all."""
    found = [code for code in codes if code != pytest.ExitCode.NO_TESTS_COLLECTED]
    failures = [code for code in found if code]
    return failures[0] if failures else 0 if found else pytest.ExitCode.NO_TESTS_COLLECTED


def _kept(name: str) -> tuple[str, ...]:
    return ("--durations=40", "--keep-durations", name)


def _pytest(*words: str) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode


def _last_failed() -> list[str]:
    """The tests that pytest remembers as failed."""
    try:
        return list(json.loads(LAST_FAILED.read_bytes()))
    except (OSError, ValueError):
        return []
