"""One API server for all tests of a process, which use a namespace each.

Starting one takes some seconds of two cores. Whatever a test stops or freezes runs again at its
end. A file whose tests need a separate server (permissions, an audit log, flags, operators that see
all namespaces) has its own fixture ``server``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.kube.apiserver import ApiServer, running

LEFT_OUT = "no Kubernetes here"
"""The prefix of the reason of a skip due to missing binaries or a missing cluster."""

NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with running(tmp_path_factory.mktemp("kube")) as server:
        yield server


@pytest.fixture
def server(shared_server: ApiServer) -> ApiServer:
    """A running API server, also after a test that stopped it and failed."""
    shared_server.ensure()
    return shared_server


def new_namespace() -> str:
    """A name that no other test of this process has."""
    return f"test-{next(NUMBERS)}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report in the last lines of a run that the tests that need Kubernetes were skipped."""
    skipped = terminalreporter.stats.get("skipped", [])
    left_out = [one for one in skipped if LEFT_OUT in str(one.longrepr)]
    if left_out:
        terminalreporter.section("Kubernetes", yellow=True)
        terminalreporter.write_line(
            f"{len(left_out)} Kubernetes tests were LEFT OUT: there is no cluster. "
            "`make cluster` builds one, then `make test` runs them too."
        )
