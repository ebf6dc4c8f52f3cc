"""Error messages of the command line."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from devcluster import Cluster, NotFound
from devcluster.__main__ import cli


@pytest.fixture(autouse=True)
def _no_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    "command", [["status"], ["node-stop", "node-a"], ["component-start", "apiserver"]]
)
def test_without_a_cluster_one_line_says_how_to_get_one(command: list[str]) -> None:
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 1
    assert result.output == "Error: there is no cluster; `make cluster` brings one up\n"


@pytest.mark.parametrize("nodes", ["0", "27", "two"])
def test_a_number_of_nodes_that_cannot_be_is_refused(nodes: str) -> None:
    result = CliRunner().invoke(cli, ["up", "--nodes", nodes])
    assert result.exit_code == 2


@pytest.mark.parametrize("command", ["up", "down", "build"])
def test_who_is_not_root_is_told(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    result = CliRunner().invoke(cli, [command])
    assert result.exit_code == 1
    assert "run this as root" in result.output


def test_unknown_parts_are_named_with_the_known_ones(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "resile" / "cluster" / "kubeconfig"
    kubeconfig.parent.mkdir(parents=True)
    kubeconfig.touch()
    cluster = Cluster.find()
    with pytest.raises(NotFound, match=r"no component 'api'; there are etcd, registry, apiserver"):
        cluster.stop("api")
    with pytest.raises(NotFound, match="no node 'node-q'"):
        cluster.stop_node("node-q")
