"""Says in the last lines of a run when the tests that need Kubernetes were left out."""

from __future__ import annotations

import pytest

LEFT_OUT = "no Kubernetes here"
"""How the reason of a skip begins that is due to missing binaries or a missing cluster."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    left_out = [one for one in skipped if LEFT_OUT in str(one.longrepr)]
    if left_out:
        terminalreporter.section("Kubernetes", yellow=True)
        terminalreporter.write_line(
            f"{len(left_out)} Kubernetes tests were LEFT OUT: there is no cluster. "
            "`make cluster` builds one, then `make test` runs them too."
        )
