"""Every command on a cluster's job once as `python -m resile`, with its own imports.

The other files' commands are forked from a process that has imported everything.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kube.apiserver import ApiServer
from tests.kube.cli.console import Console
from tests.kube.cli.statuses import manifest
from tests.kube.operator.stage import Stage

MEANWHILE = {
    "jobs": "digits",
    "describe digits": "2 of 2 nodes are running",
    "get digits": "kind: ElasticJob",
    "events digits": "NodeStarted",
    "scale digits worker=3": "",
    "suspend digits": "",
    "resume digits": "",
    "delete digits --no-wait": "",
}
"""The arguments of each command, and a part of its output."""


@pytest.fixture
def real(server: ApiServer, stage: Stage, tmp_path: Path) -> Console:
    kubeconfig = server.kubeconfig(namespace=stage.client.namespace)
    return Console(tmp_path, kubeconfig=kubeconfig, real=True)


@pytest.mark.usefixtures("operator", "kubelets")
async def test_all_commands_run_with_what_they_import_themselves(
    stage: Stage, real: Console
) -> None:
    submitting = real.start("submit", real.write(manifest("digits")))
    try:
        await stage.has_phase("digits", "Running")
        for typed, answer in MEANWHILE.items():
            done = await real.run(*typed.split())
            assert done.returncode == 0, (typed, done.stderr)
            assert answer in done.stdout, (typed, done.stdout)
    finally:
        submitting.kill()
        submitting.communicate()
