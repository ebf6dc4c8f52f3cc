"""Durations of the tests, kept as files, to find out why a run has become slow.

`--keep-durations NAME` writes build/durations/NAME.txt, the slowest first. A run in several parts
(`tests.everything`) ends with the slowest of all of them, in build/durations/slowest.txt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "build" / "durations"
SHOWN = 40


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--keep-durations", metavar="NAME", help="keep how long each test took")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Called in the process that has all results, also with xdist."""
    name = config.getoption("--keep-durations")
    if name is not None:
        keep(name, spent(terminalreporter.stats))


def spent(stats: Mapping[str, Iterable[object]]) -> dict[str, float]:
    """Seconds of each test, including its setup and teardown."""
    seconds: dict[str, float] = defaultdict(float)
    for reports in stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid] += report.duration
    return seconds


def keep(name: str, seconds: Mapping[str, float]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.txt").write_text(_lines(seconds))


def forget() -> None:
    """Delete earlier durations, at the start of a run in several parts."""
    for file in FOLDER.glob("*.txt"):
        file.unlink()


def slowest() -> str:
    """The slowest tests of all parts, also written to a file."""
    seconds: dict[str, float] = {}
    for file in FOLDER.glob("*.txt"):
        for line in file.read_text().splitlines():
            spent, test = line.split(maxsplit=1)
            seconds[test] = float(spent)
    keep("slowest", dict(sorted(seconds.items(), key=lambda one: -one[1])[:SHOWN]))
    return (FOLDER / "slowest.txt").read_text()


def _lines(seconds: Mapping[str, float]) -> str:
    ordered = sorted(seconds.items(), key=lambda one: -one[1])
    return "".join(f"{spent:8.2f}  {test}\n" for test, spent in ordered)
