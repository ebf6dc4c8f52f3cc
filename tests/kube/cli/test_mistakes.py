"""Mistakes are reported in a sentence, with a nonzero exit code, and never with a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from resile.job.status import JobPhase
from resile.local.jobdir import JobDir
from tests.kube.apiserver import GUEST, ApiServer, running
from tests.kube.cli.console import Console
from tests.kube.cli.statuses import create, left_behind, manifest, status
from tests.kube.operator.stage import Stage

ON_A_JOB = (
    ("describe", "ghost"),
    ("logs", "ghost"),
    ("events", "ghost"),
    ("get", "ghost"),
    ("delete", "ghost"),
    ("suspend", "ghost"),
    ("resume", "ghost"),
    ("scale", "ghost", "worker=1"),
)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A server that checks permissions and has no ElasticJob definition."""
    with running(tmp_path_factory.mktemp("strict"), authorization="RBAC") as server:
        yield server


async def sentence(console: Console, *words: str) -> str:
    said = await console.refuses(*words)
    (line,) = said.splitlines()
    assert line.startswith("Error: ")
    return line


@pytest.mark.parametrize("words", ON_A_JOB, ids=lambda words: words[0])
async def test_a_job_that_is_nowhere(
    stage: Stage, console: Console, words: tuple[str, ...]
) -> None:
    namespace = stage.client.namespace
    said = await sentence(console, *words)
    assert f"there is no job 'ghost' on this machine, nor in namespace {namespace} of" in said
    assert "'resile up job.yaml' starts one here, 'resile submit job.yaml' there" in said
    said = await sentence(console, *words, "-n", namespace)
    assert f"there is no job 'ghost' in namespace {namespace} of" in said
    assert "this machine" not in said
    assert said.endswith("nor any other; start one with 'resile submit job.yaml'")


async def test_others_are_named(stage: Stage, console: Console) -> None:
    await create(stage.client, manifest("digits"))
    await create(stage.client, manifest("mnist"))
    said = await sentence(console, "describe", "digit")
    assert "Did you mean 'digits'? There: digits, mnist." in said
    said = await sentence(console, "describe", "digit", "-n", stage.client.namespace)
    assert "Did you mean 'digits'? There are: digits, mnist" in said


async def test_a_job_on_this_machine_comes_first(
    stage: Stage, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESILE_HOME", console.env()["RESILE_HOME"])
    with JobDir("digits").hold():
        JobDir("digits").begin()
    await create(stage.client, manifest("digits"), status("digits", JobPhase.SUCCEEDED))
    assert "Crashed" in await console.says("describe", "digits")
    shown = await console.says("describe", "digits", "-n", stage.client.namespace)
    assert "Succeeded" in shown
    for command in ("suspend", "resume"):
        said = await sentence(console, command, "digits")
        assert "the job 'digits' is not running (Crashed)" in said
        assert "the next 'resile up' trains on" in said


async def test_no_cluster(stage: Stage, console: Console) -> None:
    alone = Console(console.folder)
    for words in (("jobs", "-A"), ("describe", "x", "-n", "y"), ("submit", "job.json")):
        alone.write(manifest("digits"))
        said = await sentence(alone, *words)
        assert "no cluster is configured: there is no kubeconfig at" in said
    said = await sentence(alone, "jobs", "--kubeconfig", "nowhere")
    assert "there is no kubeconfig at nowhere" in said


async def test_an_unknown_context(stage: Stage, console: Console) -> None:
    for words in (("jobs",), ("describe", "x")):
        said = await sentence(console, *words, "--context", "production")
        assert "has no context 'production'; it has: test" in said


async def test_a_cluster_that_was_asked_for_and_is_away(
    stage: Stage, console: Console, server: ApiServer
) -> None:
    server.stop()
    try:
        assert "does not answer" in await sentence(console, "jobs", "-A")
        said = await sentence(console, "describe", "ghost")
        assert said.startswith("Error: the API server at ")
        assert "does not answer" in said
        assert "; and there is no job 'ghost', nor any other on this machine" in said
    finally:
        server.start()


async def test_a_cluster_that_does_not_know_elastic_jobs(strict: ApiServer, tmp_path: Path) -> None:
    console = Console(tmp_path, kubeconfig=strict.kubeconfig())
    install = "install Resile's operator first, with 'helm install resile deploy/helm/resile …'"
    path = console.write(manifest("digits"))
    for words in (
        ("jobs", "-A"),
        ("describe", "x", "-n", "default"),
        ("submit", path),
        ("submit", path, "--dry-run"),
    ):
        assert install in await sentence(console, *words)
    done = await console.run("jobs")
    assert done.returncode == 0
    assert install in done.stderr


async def test_what_the_account_may_not_do(strict: ApiServer, tmp_path: Path) -> None:
    console = Console(tmp_path, kubeconfig=strict.kubeconfig(GUEST))
    said = await sentence(console, "jobs", "-A")
    assert 'User "guest" cannot list resource "elasticjobs"' in said
    said = await sentence(console, "submit", console.write(manifest("digits")))
    assert 'User "guest" cannot get resource "elasticjobs"' in said


async def test_credentials_that_are_not_known(strict: ApiServer, tmp_path: Path) -> None:
    config = yaml.safe_load(Path(strict.kubeconfig()).read_text())
    config["users"][0]["user"]["token"] = "expired"
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(config))
    console = Console(tmp_path, kubeconfig=str(file))
    assert "the cluster refused the credentials (Unauthorized)" in await sentence(
        console, "jobs", "-A"
    )
    said = await sentence(console, "describe", "bad")
    assert said.startswith("Error: the cluster refused the credentials (Unauthorized): ")
    assert "have expired; and there is no job 'bad', nor any other on this machine" in said


@pytest.mark.parametrize("name", ["", ".", "..", "digits/status", "Digits", "a_b", "a.-b", "é"])
async def test_what_cannot_be_a_jobs_name(stage: Stage, console: Console, name: str) -> None:
    await create(stage.client, manifest("digits"))
    said = await sentence(console, "describe", "-n", stage.client.namespace, "--", name)
    assert said.startswith(f"Error: '{name}' cannot be a job: its name has at most 253 characters")


@pytest.mark.parametrize("namespace", ["../kube-system", "..", "Team", "a.b", "x" * 64])
async def test_what_cannot_be_a_namespace(console: Console, namespace: str) -> None:
    for words in (("describe", "digits"), ("jobs",), ("delete", "digits")):
        said = await sentence(console, *words, "-n", namespace)
        assert said.startswith(f"Error: '{namespace}' cannot be a namespace: ")


async def test_a_name_with_dots_is_looked_for(stage: Stage, console: Console) -> None:
    said = await sentence(console, "describe", "a.b", "-n", stage.client.namespace)
    assert "there is no job 'a.b' in namespace" in said


@pytest.mark.parametrize("named", ["~nosuch/x", f"/tmp/{'x' * 300}", "/"])
async def test_a_kubeconfig_that_cannot_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    console = Console(tmp_path, kubeconfig=named)
    monkeypatch.setenv("RESILE_HOME", console.env()["RESILE_HOME"])
    left_behind(JobDir("digits"), manifest("digits"), status("digits", JobPhase.SUCCEEDED))
    trouble = f"the kubeconfig {named} cannot be"
    done = await console.run("jobs")
    assert done.returncode == 0
    assert "digits" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Warning: no jobs of the cluster: {trouble}")
    assert "Succeeded" in await console.says("describe", "digits")
    said = await sentence(console, "describe", "digit")
    assert said.startswith(f"Error: {trouble}")
    assert "; and there is no job 'digit'. Did you mean 'digits'?" in said
    assert (await sentence(console, "jobs", "-A")).startswith(f"Error: {trouble}")


async def test_wrong_flags_are_the_command_lines(stage: Stage, console: Console) -> None:
    done = await console.run("logs", "x", "--all", "--rank", "1")
    assert done.returncode == 2
    assert "remove --rank and node names" in done.stderr
    done = await console.run("logs", "x", "--master", "--rank", "1")
    assert done.returncode == 2
    assert "remove --all, --rank and node names" in done.stderr


async def test_a_job_without_a_master_has_no_log_of_one(stage: Stage, console: Console) -> None:
    await create(stage.client, manifest("digits"), status("digits", JobPhase.SUCCEEDED))
    done = await console.run("logs", "digits", "--master")
    assert (done.returncode, done.stdout) == (0, "")
    told = "Nothing to show: job 'digits' has no master at the moment (Succeeded); see 'resile "
    assert done.stderr == f"{told}describe digits'.\n"
    done = await console.run("logs", "digits", "--master", "-f")
    assert done.returncode == 0, "it is over"


async def test_a_job_that_is_over_is_refused_in_the_same_words_on_both_platforms(
    stage: Stage, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    described, written = manifest("digits"), status("digits", JobPhase.SUCCEEDED)
    await create(stage.client, described, written)
    namespace = stage.client.namespace
    monkeypatch.setenv("RESILE_HOME", console.env()["RESILE_HOME"])
    left_behind(JobDir("digits"), described, written)
    for words in (("scale", "digits", "worker=3"), ("suspend", "digits"), ("resume", "digits")):
        here = await console.run(*words)
        there = await console.run(*words, "-n", namespace)
        assert (here.returncode, here.stderr) == (there.returncode, there.stderr)
        assert here.stderr.startswith("Error: the job is over; it cannot be ")
