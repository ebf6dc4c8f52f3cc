"""Selecting a cluster, and the errors when there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from resile.cli.main import cli
from resile.cli.options.cluster import ClusterOptions
from resile.cli.output.explain import user_message
from resile.client.cluster import cluster
from resile.client.cluster.cluster import is_configured, unknown_kind
from resile.kube.errors import ApiError, NotFound


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RESILE_HOME", str(tmp_path / "resile"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setattr(cluster, "SERVICE_ACCOUNT", tmp_path / "token")
    return tmp_path


def test_a_cluster_is_configured_by_any_of_three(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_configured()
    (home / "token").write_text("a pod's")
    assert is_configured()
    (home / "token").unlink()
    monkeypatch.setenv("KUBECONFIG", f"{home / 'a'}:{home / 'b'}")
    assert not is_configured()
    (home / "b").write_text("")
    assert is_configured()
    monkeypatch.delenv("KUBECONFIG")
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text("")
    assert is_configured()


def test_options_are_repeated_in_hints() -> None:
    assert ClusterOptions().flags == ""
    assert not ClusterOptions().given
    assert ClusterOptions("team", "pro duction").flags == " -n team --context 'pro duction'"


WITHOUT_THE_EXTRA = (
    "import sys; sys.modules['cryptography'] = None\n"
    "from resile.cli.main import main\n"
    "sys.argv[0] = 'resile'\n"
    "main()\n"
)


def without_the_extra(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_operator_says_what_to_install(home: Path) -> None:
    done = without_the_extra("operator", "--image", "x")
    assert done.returncode == 1
    assert done.stderr == (
        "Error: the operator needs cryptography: pip install 'resile[kubernetes]'\n"
    )


def test_commands_on_a_cluster_need_nothing_more_installed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c"}}
    config = {"clusters": [cluster], "contexts": [context], "current-context": "c"}
    (home / "config").write_text(yaml.safe_dump(config))
    monkeypatch.setenv("KUBECONFIG", str(home / "config"))
    done = without_the_extra("jobs", "-A")
    assert done.returncode == 1
    assert done.stderr == (
        "Error: the API server at http://127.0.0.1:1 does not answer: Connection refused\n"
    )


def test_local_commands_do_without_a_cluster(home: Path) -> None:
    done = CliRunner().invoke(cli, ["jobs"])
    assert done.output == "There are no jobs. Start one with 'resile up job.yaml'.\n"


def test_what_is_no_clusters_doing_stays_a_bug() -> None:
    assert user_message(ValueError("ours")) is None
    assert "Unauthorized" in (user_message(ApiError(401, "Unauthorized", message="x")) or "")


def test_only_a_404_without_a_name_is_about_the_kind() -> None:
    named = NotFound(404, "NotFound", message="gone", details={"name": "digits"})
    assert unknown_kind(named) is named
    assert "install Resile's operator" in str(unknown_kind(NotFound(404, "", message="404 page")))
