"""Messages to a user of plain torchrun about mismatched settings."""

from __future__ import annotations

from tests.local.torchrun.launching import TorchrunJob


def test_a_wrong_token_is_refused_with_a_clear_sentence(job: TorchrunJob) -> None:
    job.master()
    node = job.torchrun(RESILE_TOKEN="a-token-of-another-job")
    assert node.wait() == 1
    assert "RendezvousConnectionError: the master at 127.0.0.1:" in node.output
    assert "refused the token" in node.output


def test_a_master_of_another_job_refuses(job: TorchrunJob) -> None:
    job.master("--job", "other")
    node = job.torchrun()
    assert node.wait() == 1
    assert "this master serves the job 'other', not 'test'" in node.output


def test_a_master_that_never_comes_is_given_up(job: TorchrunJob) -> None:
    node = job.torchrun("--rdzv-conf", "connect_timeout=0.5")
    assert node.wait() == 1
    assert f"RendezvousConnectionError: no master answers at {job.endpoint}" in node.output


def test_a_setting_that_does_not_exist_is_named_with_a_suggestion(job: TorchrunJob) -> None:
    node = job.torchrun("--rdzv-conf", "last_cal=3")
    assert node.wait() == 1
    assert "there is no setting 'last_cal'; did you mean last_call?" in node.output


def test_settings_of_other_backends_are_said_to_be_ignored(job: TorchrunJob) -> None:
    job.master()
    node = job.torchrun("--rdzv-conf", "is_host=1,last_call_timeout=0", STEPS="3")
    assert node.wait() == 0
    assert "--rdzv-conf is_host is ignored" in node.output


def test_too_few_nodes_are_waited_for_and_given_up(job: TorchrunJob) -> None:
    job.master()
    node = job.torchrun("--rdzv-conf", "join_timeout=1", nnodes="2")
    assert node.wait() == 1
    assert "waiting for nodes: 1 of at least 2 joined" in node.output
    assert "RendezvousClosedError: the job failed: timed out after 1 s" in node.output
