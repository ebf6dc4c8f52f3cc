"""--master-addr and --master-port: the address is the script's, in every round."""

from __future__ import annotations

import socket
import time
from contextlib import closing
from pathlib import Path

import pytest

from resile.cli.options.rdzv import master_port_beside
from resile.wire.endpoint import free_port
from tests.local.jobs import Job


@pytest.fixture
def port(job: Job) -> int:
    """A port for the script; the job's own is the master's beside it."""
    found = free_port()
    job.port = master_port_beside(found)
    return found


def static(port: int) -> list[str]:
    return ["--master-addr=localhost", f"--master-port={port}"]


def test_a_script_meets_at_the_port_it_was_promised_also_after_a_failure(
    job: Job, port: int
) -> None:
    node = job.start(
        *static(port),
        script="static_group.py",
        args=(f"tcp://localhost:{port}", "fail-once"),
        endpoint=False,
        nproc=2,
    )
    assert node.wait() == 0, node.output
    after = node.output[node.output.index("round 2 runs") :]
    for rank in (0, 1):
        assert f"[rank{rank}] sum 2 at localhost:{port}\n" in after


def test_nodes_with_the_same_static_address_are_one_job(job: Job, port: int) -> None:
    nodes = [
        job.start(
            *static(port),
            *("--nnodes=2", f"--node-rank={number}"),
            script="static_group.py",
            args=("env://",),
            endpoint=False,
        )
        for number in (0, 1)
    ]
    for number, node in enumerate(nodes):
        assert node.wait() == 0, node.output
        assert f"[rank{number}] sum 2 at localhost:{port}\n" in node.output


def test_a_script_without_torch_finds_the_port_free(job: Job, port: int, tmp_path: Path) -> None:
    script = tmp_path / "own_server.py"
    script.write_text(
        "import os, socket\n"
        "address = os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT'])\n"
        "socket.create_server(address).close()\n"
        "print('listened at %s:%d' % address)\n"
    )
    node = job.start(*static(port), script=str(script), endpoint=False)
    assert node.wait() == 0, node.output
    assert f"[rank0] listened at localhost:{port}\n" in node.output


def test_a_port_that_another_program_has_is_told_at_once(job: Job, port: int) -> None:
    began = time.monotonic()
    with closing(socket.create_server(("127.0.0.1", port))):
        node = job.start(*static(port), script="static_group.py", args=("env://",), endpoint=False)
        assert node.wait() == 1
    assert f"--master-port {port} cannot be used for training" in node.output
    assert "Traceback" not in node.output
    assert time.monotonic() - began < 60, "not only after --connect-timeout"
