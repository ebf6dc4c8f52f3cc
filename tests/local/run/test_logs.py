"""The workers' output: one stream with the rank as a prefix, and files if requested."""

from __future__ import annotations

import socket
from pathlib import Path

from tests.local.jobs import Job


def files(folder: Path) -> dict[str, str]:
    """Contents of all kept streams by ``local rank/stream``."""
    return {f"{p.parent.name}/{p.stem}": p.read_text() for p in folder.rglob("*.log")}


def test_every_line_has_its_rank_in_front(job: Job, tmp_path: Path) -> None:
    node = job.start(script="environment.py", nproc=2, REPORT=str(tmp_path))
    assert node.wait() == 0, node.output
    for rank in (0, 1):
        assert f"[rank{rank}] to stdout from {rank}\n" in node.output
        assert f"[rank{rank}] to stderr from {rank}\n" in node.output


def test_teed_streams_are_on_the_console_and_in_files(job: Job, tmp_path: Path) -> None:
    node = job.start(
        *("--tee", "3", "--log-dir", str(tmp_path / "logs")),
        script="environment.py",
        nproc=2,
        REPORT=str(tmp_path),
    )
    assert node.wait() == 0, node.output
    assert "[rank1] to stdout from 1\n" in node.output
    found = files(tmp_path / "logs")
    assert found["1/stdout"] == "to stdout from 1\n"
    assert "to stderr from 0\n" in found["0/stderr"]


def test_redirected_streams_are_in_files_only(job: Job, tmp_path: Path) -> None:
    node = job.start(
        *("--redirects", "0:1,1:3", "--log-dir", str(tmp_path / "logs")),
        script="environment.py",
        nproc=2,
        REPORT=str(tmp_path),
    )
    assert node.wait() == 0, node.output
    assert "to stdout from 0" not in node.output
    assert "[rank0] to stderr from 0\n" in node.output
    assert "from 1" not in node.output
    assert files(tmp_path / "logs")["1/stderr"].endswith("to stderr from 1\n")


def test_only_the_chosen_ranks_are_shown(job: Job, tmp_path: Path) -> None:
    node = job.start(
        "--local-ranks-filter", "1", script="environment.py", nproc=2, REPORT=str(tmp_path)
    )
    assert node.wait() == 0, node.output
    assert "from 0" not in node.output
    assert "[rank1] to stdout from 1\n" in node.output


def test_the_prefix_is_a_template_of_the_users(job: Job, tmp_path: Path) -> None:
    node = job.start(
        *("--redirect=3", "--tee=3", "--role", "trainer", "--log-dir", str(tmp_path / "logs")),
        script="environment.py",
        REPORT=str(tmp_path),
        TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="${hostname} ${role_name}${local_rank} [${rank}]: ",
    )
    assert node.wait() == 0, node.output
    assert f"{socket.gethostname()} trainer0 [0]: to stdout from 0\n" in node.output
    assert files(tmp_path / "logs")["0/stdout"] == "to stdout from 0\n"


def test_the_prefix_of_the_flag_goes_before_the_variables(job: Job, tmp_path: Path) -> None:
    node = job.start(
        "--log-line-prefix-template=<${rank}> ",
        script="environment.py",
        REPORT=str(tmp_path),
        TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE="not this: ",
    )
    assert node.wait() == 0, node.output
    assert "<0> to stdout from 0\n" in node.output
    assert "not this" not in node.output
